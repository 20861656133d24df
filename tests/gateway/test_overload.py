"""When a process takes no more work, by its name."""

import asyncio
import time

import pytest

from gateway import overload
from gateway.overload import Overload
from relay.core.errors import Refusal


def an_overload(*, is_full: bool = False, streams: int = 0, streams_max: int = 0) -> Overload:
    return Overload(
        is_full=lambda: is_full,
        active_streams=lambda: streams,
        active_requests=lambda: streams,
        streams_max=lambda: streams_max,
    )


def reason(checked: Overload, *, is_stream: bool = True) -> str | None:
    try:
        checked.check(is_stream=is_stream)
    except Refusal as refusal:
        return refusal.code if refusal.status == 503 and refusal.retry_after_s else "told wrongly"
    return None


def test_nothing_is_short():
    assert reason(an_overload(streams=1_000)) is None


def test_a_recorder_that_is_full():
    assert reason(an_overload(is_full=True), is_stream=False) == "overloaded"


@pytest.mark.parametrize(
    ("streams", "expected"), [(1, None), (2, "too_many_streams"), (3, "too_many_streams")]
)
def test_streams_beyond_their_limit_and_no_other_requests(streams, expected):
    checked = an_overload(streams=streams, streams_max=2)
    assert reason(checked) == expected
    assert reason(checked, is_stream=False) is None


async def sampled(checked: Overload, times: int) -> None:
    checked.start()
    await asyncio.sleep(overload.SAMPLE_S * (times + 0.5))


async def test_file_descriptors_run_short(monkeypatch):
    monkeypatch.setattr(overload, "SAMPLE_S", 0.02)
    monkeypatch.setattr(overload, "_descriptors_max", lambda: 10)
    checked = an_overload()
    await sampled(checked, 2)
    assert reason(checked) == "too_many_connections"
    await checked.aclose()


async def test_a_loop_that_is_late_twice_and_not_once(monkeypatch):
    monkeypatch.setattr(overload, "SAMPLE_S", 0.02)
    monkeypatch.setattr(overload, "LAG_MAX_S", 0.1)
    checked = an_overload()
    checked.start()
    await asyncio.sleep(0.01)
    time.sleep(0.3)
    await asyncio.sleep(0.005)
    assert reason(checked) is None
    time.sleep(0.3)
    await asyncio.sleep(0.005)
    assert reason(checked) == "overloaded"
    await asyncio.sleep(0.2)
    assert reason(checked) is None
    await checked.aclose()
