"""The nudger's thread: it alone touches Celery, and it is beat where there is none."""

import asyncio
import threading
import time

import pytest
from celery import current_app

from billing.nudger import RECORD_TASK, Nudger, celery_nudge
from billing.schedule import BEAT_SCHEDULE, REGULAR_QUEUE


def stop(nudger: Nudger) -> None:
    ended = threading.Event()
    nudger.stop(ended.set)
    assert ended.wait(2)
    assert nudger.join(1)


def wait_until(condition, timeout_s: float = 3.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_many_nudges_within_an_interval_become_one():
    sent = []
    nudger = Nudger(interval_s=0.1, nudge=sent.append)
    nudger.start()
    wait_until(lambda: sent)
    for _ in range(100):
        nudger.nudge()
    wait_until(lambda: len(sent) == 2)
    time.sleep(0.15)
    assert sent == [RECORD_TASK, RECORD_TASK]
    stop(nudger)


def test_a_nudge_during_a_slow_nudge_is_not_lost():
    started, release, sent = threading.Event(), threading.Event(), []

    def slow(task):
        sent.append(task)
        started.set()
        release.wait(2)

    nudger = Nudger(interval_s=0.01, nudge=slow)
    nudger.start()
    started.wait(1)
    nudger.nudge()
    release.set()
    wait_until(lambda: len(sent) == 2)
    stop(nudger)


def test_scheduled_tasks_run_without_nudges_and_go_on():
    sent = []
    schedule = {"job": {"task": "some.job", "schedule": 0.05, "options": {"expires": 0.05}}}
    nudger = Nudger(interval_s=0.01, schedule=schedule, nudge=sent.append)
    nudger.start()
    wait_until(lambda: sent.count("some.job") >= 3)
    stop(nudger)


def test_a_busy_courier_does_not_starve_the_schedule():
    sent = []
    schedule = {"job": {"task": "some.job", "schedule": 0.05, "options": {"expires": 0.05}}}
    nudger = Nudger(interval_s=0.01, schedule=schedule, nudge=sent.append)
    nudger.start()
    end = time.monotonic() + 0.4
    while time.monotonic() < end:
        nudger.nudge()
        time.sleep(0.001)
    assert sent.count("some.job") >= 3
    stop(nudger)


def test_stopping_nudges_once_more():
    sent = []
    nudger = Nudger(interval_s=10, nudge=sent.append)
    nudger.start()
    wait_until(lambda: sent)
    nudger.nudge()
    stop(nudger)
    assert len(sent) == 2


def test_every_scheduled_task_exists():
    for entry in BEAT_SCHEDULE.values():
        assert entry["task"] in current_app.tasks
        assert entry["options"]["expires"] <= entry["schedule"]
        assert entry["options"]["queue"] in current_app.amqp.queues


def test_a_plain_worker_serves_nudges_and_regular_jobs():
    assert set(current_app.amqp.queues.consume_from) == {"celery", REGULAR_QUEUE}


async def test_celery_is_refused_on_a_loop():
    with pytest.raises(RuntimeError, match="thread"):
        celery_nudge()


def test_other_threads_see_the_configured_celery_app():
    """Celery keeps the current app per thread; without a default a thread would publish to nowhere."""
    seen = []
    thread = threading.Thread(target=lambda: seen.append(current_app.main))
    thread.start()
    thread.join()
    assert seen == ["sluice"]


@pytest.mark.parametrize(("eager", "jobs"), [(True, len(BEAT_SCHEDULE)), (False, 0)])
def test_beat_runs_here_only_without_a_broker(set_eager, eager, jobs):
    set_eager(eager)
    assert len(Nudger.from_settings()._schedule) == jobs


async def test_a_nudge_is_safe_from_the_loop():
    sent = []
    nudger = Nudger(interval_s=0.01, nudge=sent.append)
    nudger.start()
    nudger.nudge()
    await asyncio.sleep(0.1)
    assert sent
    stop(nudger)
