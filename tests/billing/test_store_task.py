"""The task that talks to Redis, with a connection that the test plays."""

import asyncio

import pytest
from prometheus_client import REGISTRY
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, ResponseError

from billing.admission import StoreUnavailable
from billing.admission.redis import scripts
from billing.admission.redis.store_task import BATCH_MAX, LOGGED_EVERY_S, RETRY_S, NotSent, StoreTask

SCRIPT = scripts.STATE


class FakeExchange:
    """Answers each call with its argument, once `gate` is open; `errors` are raised first, one a batch."""

    def __init__(self):
        self.batches = []
        self.errors = []
        self.replies = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.closed = 0

    async def exchange(self, calls):
        self.batches.append([rest[0] for _, rest in calls])
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        return [self.replies.get(rest[0], rest[0]) for _, rest in calls]

    async def aclose(self):
        self.closed += 1


@pytest.fixture
async def exchange():
    return FakeExchange()


@pytest.fixture
def moment():
    return [100.0]


@pytest.fixture
async def task(exchange, moment):
    task = StoreTask(lambda: exchange, lambda: moment[0])
    yield task
    exchange.gate.set()
    await task.aclose()
    assert not [one for one in asyncio.all_tasks() if one.get_name() == "admission-store"]


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_calls_of_one_turn_go_as_one_batch(task, exchange):
    assert await asyncio.gather(*(task.call(SCRIPT, number) for number in range(5))) == [0, 1, 2, 3, 4]
    assert exchange.batches == [[0, 1, 2, 3, 4]]


async def test_what_comes_meanwhile_goes_as_the_next(task, exchange):
    exchange.gate.clear()
    first = asyncio.create_task(task.call(SCRIPT, "a"))
    await turns()
    others = [asyncio.create_task(task.call(SCRIPT, name)) for name in "bcd"]
    await turns()
    assert exchange.batches == [["a"]]
    exchange.gate.set()
    assert await asyncio.gather(first, *others) == ["a", "b", "c", "d"]
    assert exchange.batches == [["a"], ["b", "c", "d"]]


async def test_a_batch_is_bounded(task, exchange):
    await asyncio.gather(*(task.call(SCRIPT, number) for number in range(BATCH_MAX + 1)))
    assert [len(batch) for batch in exchange.batches] == [BATCH_MAX, 1]


async def test_a_cancelled_caller_cancels_nothing_and_shifts_no_reply(task, exchange):
    exchange.gate.clear()
    callers = {name: asyncio.create_task(task.call(SCRIPT, name)) for name in "abc"}
    await turns()
    callers["b"].cancel()
    await turns()
    exchange.gate.set()
    assert await callers["a"] == "a"
    assert await callers["c"] == "c"
    assert callers["b"].cancelled()
    assert exchange.batches == [["a", "b", "c"]]
    assert await task.call(SCRIPT, "d") == "d"


async def test_a_script_that_fails_fails_alone(task, exchange):
    exchange.replies["b"] = ResponseError("secret")
    answers = await asyncio.gather(*(task.call(SCRIPT, name) for name in "abc"), return_exceptions=True)
    assert (answers[0], answers[2]) == ("a", "c")
    assert isinstance(answers[1], StoreUnavailable)
    assert str(answers[1]) == "ResponseError"


async def test_a_broken_batch_fails_its_callers_and_keeps_what_was_posted(task, exchange):
    exchange.errors = [RedisConnectionError("secret")]
    task.post(SCRIPT, "p")
    task.post(SCRIPT, "q")
    with pytest.raises(StoreUnavailable) as told:
        await task.call(SCRIPT, "a")
    assert not isinstance(told.value, NotSent)
    assert "secret" not in str(told.value)
    await turns()
    assert exchange.batches == [["p", "q", "a"], ["p", "q"]]
    assert task.unsent == 0


async def test_three_broken_batches_and_nobody_waits_any_more(task, exchange, moment, caplog):
    exchange.errors = [TimeoutError()] * 4
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await task.call(SCRIPT, "a")
    assert len(exchange.batches) == 3
    with pytest.raises(NotSent):
        await task.call(SCRIPT, "b")
    assert len(exchange.batches) == 3
    moment[0] += 1
    answers = await asyncio.gather(*(task.call(SCRIPT, "probe") for _ in range(3)), return_exceptions=True)
    assert [isinstance(answer, NotSent) for answer in answers] == [False, True, True]
    assert exchange.batches[3:] == [["probe"]]
    moment[0] += 1
    assert await task.call(SCRIPT, "c") == "c"
    assert await asyncio.gather(task.call(SCRIPT, "d"), task.call(SCRIPT, "e")) == ["d", "e"]
    assert [record.getMessage() for record in caplog.records] == [
        "admission store is away (TimeoutError); asked once a second from now on",
        "admission store is back",
    ]


async def test_whoever_waits_when_the_breaker_opens_is_told_at_once(task, exchange):
    exchange.errors = [TimeoutError()] * 3
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await task.call(SCRIPT, "a")
    exchange.gate.clear()
    third = asyncio.create_task(task.call(SCRIPT, "third"))
    await turns()
    fourth = asyncio.create_task(task.call(SCRIPT, "fourth"))
    await turns()
    exchange.gate.set()
    with pytest.raises(NotSent):
        await fourth
    with pytest.raises(StoreUnavailable):
        await third
    assert exchange.batches[2:] == [["third"]]


async def test_what_was_posted_probes_by_itself(exchange):
    task = StoreTask(lambda: exchange)
    exchange.errors = [TimeoutError()] * 3
    task.post(SCRIPT, "p")
    async with asyncio.timeout(3):
        while task.unsent or len(exchange.batches) < 4:
            await asyncio.sleep(0.01)
    assert exchange.batches == [["p"]] * 4
    await task.aclose()


async def test_a_posted_script_that_fails_is_sent_again_later_and_holds_up_nobody(task, exchange, moment):
    exchange.replies["p"] = ResponseError("OOM")
    task.post(SCRIPT, "p")
    assert await task.call(SCRIPT, "a") == "a"
    assert await task.call(SCRIPT, "b") == "b"
    assert exchange.batches == [["p", "a"], ["b"]]
    del exchange.replies["p"]
    moment[0] += 1
    assert await task.call(SCRIPT, "c") == "c"
    await turns()
    assert task.unsent == 0


def posted_calls_failed() -> float:
    return REGISTRY.get_sample_value("sluice_admission_store_posted_calls_failed_total")


async def test_a_posted_script_that_keeps_failing_is_counted_and_logged_once_a_minute(
    task, exchange, moment, caplog
):
    before = posted_calls_failed()
    exchange.replies["p"] = ResponseError("secret")
    exchange.replies["q"] = OutOfMemoryError("secret")
    for name in "ppq":
        task.post(SCRIPT, name)
    assert await task.call(SCRIPT, "a") == "a"
    moment[0] += RETRY_S
    assert await task.call(SCRIPT, "b") == "b"
    await turns()
    assert posted_calls_failed() - before == 6
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines == [
        ("ERROR", f"the admission store refuses queued calls ({name}); they are sent again")
        for name in ("ResponseError", "OutOfMemoryError")
    ]
    moment[0] += LOGGED_EVERY_S
    assert await task.call(SCRIPT, "c") == "c"
    await turns()
    assert len(caplog.records) == 4
    exchange.replies.clear()


async def test_closing_sends_what_waits_and_ends_task_and_connection(task, exchange):
    for name in "pq":
        task.post(SCRIPT, name)
    await task.aclose()
    assert exchange.batches == [["p", "q"]]
    assert exchange.closed == 1
    await task.aclose()
    assert exchange.closed == 1


async def test_closing_fails_those_who_wait_and_tells_what_is_left(task, exchange, caplog, monkeypatch):
    monkeypatch.setattr("billing.admission.redis.store_task.FLUSH_TIMEOUT_S", 0.05)
    exchange.gate.clear()
    first = asyncio.create_task(task.call(SCRIPT, "a"))
    await turns()
    second = asyncio.create_task(task.call(SCRIPT, "b"))
    task.post(SCRIPT, "p")
    await turns()
    await task.aclose()
    with pytest.raises(StoreUnavailable):
        await first
    with pytest.raises(NotSent):
        await second
    assert "2 calls" in caplog.text


async def test_a_closed_task_begins_anew(task, exchange):
    assert await task.call(SCRIPT, "a") == "a"
    await task.aclose()
    assert await task.call(SCRIPT, "b") == "b"


def test_it_follows_its_process_to_another_loop():
    exchanges = []

    def connect():
        exchanges.append(FakeExchange())
        return exchanges[-1]

    task = StoreTask(connect)

    async def life(name):
        assert await task.call(SCRIPT, name) == name

    asyncio.run(life("a"))
    asyncio.run(life("b"))
    assert [exchange.batches for exchange in exchanges] == [[["a"]], [["b"]]]
    assert [exchange.closed for exchange in exchanges] == [1, 1]
