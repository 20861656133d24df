"""The line before the image slots: order, cap, timeout, leaving. The store is a counter here."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from channels_admin.flags import FLAGS
from gateway.admission.image_gate import ImageGate, ImageLimit, NoImageSlot
from relay.core.errors import Refusal

WAIT = ImageLimit(slots=1, is_waiting_allowed=True, wait_timeout_s=5, max_waiting=3, is_cluster_wide=False)
REJECT = replace(WAIT, is_waiting_allowed=False)


@dataclass
class Slots:
    """`free` of them; admits in the order it was asked with success."""

    free: int = 1
    admitted: list[str] = field(default_factory=list)
    asked: int = 0

    async def take(self, who: str) -> str:
        self.asked += 1
        await asyncio.sleep(0)
        if not self.free:
            raise NoImageSlot
        self.free -= 1
        self.admitted.append(who)
        return who


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_flags_make_a_limit_only_when_on_and_above_zero() -> None:
    flags = {flag.name: flag.default for flag in FLAGS.values()}
    assert ImageLimit.of(flags) is None
    assert ImageLimit.of({**flags, "IMAGE_CONCURRENCY_ENABLED": True}) is None
    on = {**flags, "IMAGE_CONCURRENCY_ENABLED": True, "IMAGE_CONCURRENCY_MAX_CONCURRENT_REQUESTS": 2}
    assert ImageLimit.of(on) == ImageLimit(2, False, 30.0, 100, False)


async def test_rejected_at_once_with_the_limit_s_name_and_a_time() -> None:
    gate, slots = ImageGate(), Slots(free=0)
    with pytest.raises(Refusal) as caught:
        await gate.pass_through(REJECT, lambda: slots.take("a"))
    assert caught.value.status == 429
    assert caught.value.kind == "rate_limit_error"
    assert "Image limit" in caught.value.message
    assert caught.value.retry_after_s
    assert gate.waiting == 0


async def test_first_come_first_served() -> None:
    gate, slots = ImageGate(), Slots(free=0)
    tasks = []
    for who in "abc":
        tasks.append(asyncio.create_task(gate.pass_through(WAIT, lambda who=who: slots.take(who))))
        await settled()
    for _ in range(3):
        slots.free += 1
        gate.released()
        await settled()
    assert await asyncio.gather(*tasks) == ["a", "b", "c"]
    assert slots.admitted == ["a", "b", "c"]
    assert gate.waiting == 0


async def test_who_comes_later_does_not_overtake_those_in_line() -> None:
    gate, slots = ImageGate(), Slots(free=0)
    first = asyncio.create_task(gate.pass_through(WAIT, lambda: slots.take("first")))
    await settled()
    slots.free = 1  # free, but the line was not told yet
    second = asyncio.create_task(gate.pass_through(WAIT, lambda: slots.take("second")))
    await settled()
    assert slots.admitted == []
    gate.released()
    await settled()
    assert slots.admitted == ["first"]
    slots.free = 1
    gate.released()
    assert await second == "second"
    assert await first == "first"


async def test_a_slot_freed_elsewhere_is_found_without_being_told() -> None:
    gate, slots = ImageGate(), Slots(free=0)
    task = asyncio.create_task(gate.pass_through(WAIT, lambda: slots.take("a")))
    await settled()
    slots.free = 1
    assert await asyncio.wait_for(task, 1) == "a"


async def test_the_line_has_a_cap_and_a_patience() -> None:
    gate, slots = ImageGate(), Slots(free=0)
    limit = replace(WAIT, max_waiting=1, wait_timeout_s=0.3)
    task = asyncio.create_task(gate.pass_through(limit, lambda: slots.take("a")))
    await settled()
    with pytest.raises(Refusal, match="wait already"):
        await gate.pass_through(limit, lambda: slots.take("b"))
    with pytest.raises(Refusal, match=r"within 0\.3 s"):
        await task
    assert gate.waiting == 0


async def test_a_waiter_that_leaves_frees_its_place_and_the_next_goes_on() -> None:
    gate, slots = ImageGate(), Slots(free=0)
    leaver = asyncio.create_task(gate.pass_through(WAIT, lambda: slots.take("leaver")))
    await settled()
    stayer = asyncio.create_task(gate.pass_through(WAIT, lambda: slots.take("stayer")))
    await settled()
    leaver.cancel()
    slots.free = 1
    assert await asyncio.wait_for(stayer, 1) == "stayer"
    assert leaver.cancelled()
    assert gate.waiting == 0


async def test_another_refusal_passes_and_frees_the_place() -> None:
    gate = ImageGate()

    async def broke() -> str:
        raise Refusal(402, "no money")

    with pytest.raises(Refusal, match="no money"):
        await gate.pass_through(WAIT, broke)
    assert gate.waiting == 0
