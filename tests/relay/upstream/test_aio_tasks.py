"""spawn: names, references, and exceptions that are logged by class and never lost."""

import asyncio
import gc
import logging

import pytest

from relay.upstream.aio_tasks import running_task_names, spawn


async def test_result_and_name():
    async def answer() -> int:
        return 42

    task = spawn(answer(), name="answer")
    assert task.get_name() == "answer"
    assert running_task_names() == ["answer"]
    assert await task == 42
    await asyncio.sleep(0)
    assert running_task_names() == []


async def test_forgotten_task_survives_garbage_collection():
    done = asyncio.Event()

    async def slow() -> None:
        await asyncio.sleep(0.02)
        done.set()

    spawn(slow(), name="forgotten")
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0)
    await asyncio.wait_for(done.wait(), 1)


async def test_exception_is_logged_by_class_without_its_text(caplog):
    async def fail() -> None:
        raise ValueError("sk-secret prompt text")

    with caplog.at_level(logging.DEBUG):
        task = spawn(fail(), name="failing")
        await asyncio.wait([task])
        await asyncio.sleep(0)
        del task
        gc.collect()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "failing" in caplog.text
    assert "builtins.ValueError" in caplog.text
    assert "secret" not in caplog.text


async def test_awaiter_still_gets_the_exception():
    async def fail() -> None:
        raise LookupError("x")

    with pytest.raises(LookupError):
        await spawn(fail(), name="failing")


async def test_cancellation_is_not_an_error(caplog):
    task = spawn(asyncio.sleep(10), name="cancelled")
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert not caplog.records
    assert running_task_names() == []


def test_without_a_loop_it_refuses_and_closes_the_coroutine():
    async def never() -> None:
        raise AssertionError

    with pytest.raises(RuntimeError):
        spawn(never(), name="no loop")
    gc.collect()  # an unclosed coroutine would warn here, and warnings are errors
