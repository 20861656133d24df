"""What both admission stores promise about idempotency keys."""

import asyncio
import contextlib

import pytest

from billing.admission import StoreUnavailable
from billing.admission.idempotency import KEPT_S, Mark, Marker, MarkState
from billing.admission.memory import MemoryStore
from billing.admission.memory.idempotency import MemoryIdempotency
from billing.admission.redis import RedisAdmissionPort
from billing.admission.redis.connection import Connection
from billing.admission.redis.idempotency import RedisIdempotency
from billing.admission.store import EPOCH_EXPIRES_S, GRACE_S
from tests.billing.asks import EPOCH
from tests.billing.store_lanes import MemoryLane
from tests.billing.test_store_epochs import live

FIRST, TWIN, OTHER = Marker("k", "same", "r1"), Marker("k", "same", "r2"), Marker("k", "different", "r3")


@pytest.fixture
async def keys(lane):
    """The port of a store past its grace time, in which one process lives."""
    lane.records.beat()
    await live(lane, GRACE_S)
    await lane.port.beat(EPOCH)
    return lane.port.idempotency


async def state_of(keys, marker=TWIN) -> MarkState:
    return (await keys.begin(EPOCH, marker)).state


async def test_the_first_one_has_the_key_and_others_are_told_who(keys):
    assert await keys.begin(EPOCH, FIRST) == Mark(MarkState.MINE, "r1")
    assert await keys.begin(EPOCH, FIRST) == Mark(MarkState.MINE, "r1")
    assert await keys.begin(EPOCH, TWIN) == Mark(MarkState.RUNNING, "r1")
    assert await keys.begin(EPOCH, OTHER) == Mark(MarkState.OTHER, "r1")
    assert await state_of(keys, Marker("another", "same", "r2")) is MarkState.MINE


async def test_of_many_at_once_one_has_it(keys):
    marks = await asyncio.gather(*(keys.begin(EPOCH, Marker("k", "same", f"r{n}")) for n in range(200)))
    assert [mark.state for mark in marks].count(MarkState.MINE) == 1
    [owner] = {mark.request_id for mark in marks}
    assert marks[int(owner[1:])].state is MarkState.MINE


async def test_a_failed_one_makes_room(keys):
    await keys.begin(EPOCH, FIRST)
    keys.release(FIRST)
    assert await keys.begin(EPOCH, OTHER) == Mark(MarkState.MINE, "r3")
    keys.release(FIRST)
    assert await state_of(keys) is MarkState.OTHER


async def test_an_answer_is_given_out_after_it_was_kept(keys):
    await keys.begin(EPOCH, FIRST)
    keys.ended(EPOCH, FIRST)
    assert await keys.begin(EPOCH, TWIN) == Mark(MarkState.RUNNING, "r1")
    assert await keys.answer("r1") is None
    await keys.keep(FIRST, b"\x00sealed\xff")
    assert await keys.begin(EPOCH, TWIN) == Mark(MarkState.ANSWERED, "r1")
    assert await keys.answer("r1") == b"\x00sealed\xff"
    assert await keys.begin(EPOCH, OTHER) == Mark(MarkState.OTHER, "r1")


async def test_what_succeeded_is_never_run_again(keys):
    await keys.begin(EPOCH, FIRST)
    keys.ended(EPOCH, FIRST)
    keys.release(FIRST)
    assert await state_of(keys) is MarkState.RUNNING
    keys.finish(FIRST)
    assert await keys.begin(EPOCH, TWIN) == Mark(MarkState.UNANSWERED, "r1")
    keys.release(FIRST)
    assert await state_of(keys) is MarkState.UNANSWERED


async def test_calls_of_a_request_that_lost_the_key_change_nothing(keys):
    await keys.begin(EPOCH, FIRST)
    for queued in (keys.release, keys.finish):
        queued(TWIN)
    keys.ended(EPOCH, TWIN)
    await keys.keep(TWIN, b"not its own")
    assert await state_of(keys, Marker("k", "same", "r4")) is MarkState.RUNNING
    assert await keys.answer("r2") is None


async def test_a_dead_runner_frees_its_key(keys, lane):
    await keys.begin(EPOCH, FIRST)
    await lane.port.beat("e2")
    await live(lane, EPOCH_EXPIRES_S - 1)
    assert await keys.begin("e2", TWIN) == Mark(MarkState.RUNNING, "r1")
    await lane.port.beat("e2")
    await live(lane, 2)
    assert await keys.begin("e2", OTHER) == Mark(MarkState.MINE, "r3")
    keys.ended(EPOCH, FIRST)  # it was not dead after all
    assert await keys.begin("e2", Marker("k", "different", "r4")) == Mark(MarkState.RUNNING, "r3")


async def test_a_runner_whose_process_leaves_frees_it_at_once(keys, lane):
    await keys.begin("e2", FIRST)
    assert await state_of(keys) is MarkState.RUNNING
    await lane.port.leave("e2")
    assert await state_of(keys) is MarkState.MINE


async def test_nobody_is_taken_for_dead_while_nobody_could_be_heard(keys, lane):
    await keys.begin("e2", FIRST)
    lane.later(EPOCH_EXPIRES_S + 1)
    assert await state_of(keys) is MarkState.RUNNING
    lane.records.beat()
    assert await state_of(keys) is MarkState.RUNNING
    await live(lane, GRACE_S + 1)
    assert await state_of(keys) is MarkState.MINE


async def test_a_process_that_dies_between_success_and_answer_leaves_no_second_run(keys, lane):
    await keys.begin("e2", FIRST)
    keys.ended("e2", FIRST)
    await lane.port.leave("e2")
    assert await keys.begin(EPOCH, TWIN) == Mark(MarkState.UNANSWERED, "r1")


async def test_an_answer_outlives_its_process(keys, lane):
    await keys.begin("e2", FIRST)
    keys.ended("e2", FIRST)
    await keys.keep(FIRST, b"sealed")
    await lane.port.leave("e2")
    assert await state_of(keys) is MarkState.ANSWERED
    assert await keys.answer("r1") == b"sealed"


async def test_all_is_forgotten_after_its_time(keys, lane):
    await keys.begin(EPOCH, FIRST)
    keys.ended(EPOCH, FIRST)
    lane.later(5)
    await keys.keep(FIRST, b"sealed")
    lane.later(KEPT_S - 2)
    assert await state_of(keys) is MarkState.ANSWERED
    lane.later(3)
    assert await state_of(keys) is MarkState.MINE
    assert await keys.answer("r1") is None


async def test_running_ones_are_written_again_under_a_new_epoch(keys, lane):
    await keys.begin("old", FIRST)
    await lane.port.beat("new")
    await lane.port.leave("old")
    await keys.restore("new", [FIRST, Marker("forgotten", "same", "r9")])
    assert await keys.begin(EPOCH, TWIN) == Mark(MarkState.RUNNING, "r1")
    assert await keys.begin(EPOCH, Marker("forgotten", "same", "r8")) == Mark(MarkState.RUNNING, "r9")


async def test_writing_again_takes_nothing_from_whoever_took_over(keys, lane):
    await keys.begin("old", FIRST)
    await lane.port.leave("old")
    await keys.begin(EPOCH, TWIN)
    await keys.restore("new", [FIRST])
    assert await keys.begin(EPOCH, Marker("k", "same", "r4")) == Mark(MarkState.RUNNING, "r2")


def small(lane, limit: int):
    """The same store with little room for answers."""
    if isinstance(lane, MemoryLane):
        return MemoryIdempotency(lane.port._core, answers_bytes_max=limit)
    return RedisIdempotency(lane.url, lane.prefix, lane.port._task, answers_bytes_max=limit)


async def test_the_oldest_answers_make_room_and_their_markers_stay(keys, lane):
    keys = small(lane, 250)
    for number in range(5):
        marker = Marker(f"k{number}", "same", f"a{number}")
        await keys.begin(EPOCH, marker)
        keys.ended(EPOCH, marker)
        await keys.keep(marker, b"x" * 100)
        await keys.keep(marker, b"x" * 100)  # its first answer got lost on the way
        lane.later(1)
    states = [await state_of(keys, Marker(f"k{number}", "same", "b")) for number in range(5)]
    assert states == [MarkState.UNANSWERED] * 3 + [MarkState.ANSWERED] * 2
    assert [await keys.answer(f"a{number}") for number in (2, 3)] == [None, b"x" * 100]
    if isinstance(keys, RedisIdempotency):
        assert int(lane.client.get(f"{lane.prefix}answers_size")) == 200
        await keys.aclose()


async def test_expired_answers_take_no_room(keys, lane):
    keys = small(lane, 250)
    for number in range(4):
        marker = Marker(f"k{number}", "same", f"a{number}")
        await keys.begin(EPOCH, marker)
        keys.ended(EPOCH, marker)
        await keys.keep(marker, b"x" * 100)
        lane.later(KEPT_S - 1 if number == 1 else 1)
    lane.later(1)
    assert [await keys.answer(f"a{number}") for number in range(4)] == [None, None, b"x" * 100, b"x" * 100]
    if isinstance(keys, RedisIdempotency):
        await keys.aclose()


async def test_redis_large_answers_at_once_hold_nobody_up(redis_lane, monkeypatch):
    """A batch has 0.2 s: megabytes in it must be few."""
    keys, batches = redis_lane.port.idempotency, []
    exchange = Connection.exchange

    async def spy(self, calls):
        arguments = [argument for _, arguments in calls for argument in arguments]
        batches.append(sum(len(argument) for argument in arguments if isinstance(argument, bytes)))
        return await exchange(self, calls)

    monkeypatch.setattr(Connection, "exchange", spy)
    markers = [Marker(f"k{number}", "same", f"a{number}") for number in range(24)]
    for marker in markers:
        await keys.begin(EPOCH, marker)
        keys.ended(EPOCH, marker)
    large = b"y" * 1_500_000
    await asyncio.gather(*(keys.keep(marker, large) for marker in markers))
    assert set(await asyncio.gather(*(keys.answer(marker.request_id) for marker in markers))) == {large}
    assert len(large) <= max(batches) <= 4 * len(large)


async def test_redis_a_taking_that_nobody_waits_for_is_given_back(redis_lane):
    taking = asyncio.ensure_future(redis_lane.port.idempotency.begin(EPOCH, FIRST))
    await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert (await redis_lane.port.idempotency.begin(EPOCH, TWIN)).state is MarkState.MINE


@contextlib.contextmanager
def lost_before_the_store(lane, monkeypatch):
    """A call in here goes astray, which its caller is told; the network still has it."""
    sent = []

    async def keep(*arguments):
        sent.append(arguments)
        raise StoreUnavailable("TimeoutError")

    with monkeypatch.context() as fault, pytest.raises(StoreUnavailable):
        fault.setattr(lane.port._task, "call", keep)
        yield sent


async def test_redis_a_taking_whose_reply_got_lost_may_be_repeated_at_once(redis_lane, monkeypatch):
    keys, call = redis_lane.port.idempotency, redis_lane.port._task.call

    async def taken_but_not_told(*arguments):
        await call(*arguments)
        raise StoreUnavailable("TimeoutError")

    with monkeypatch.context() as fault, pytest.raises(StoreUnavailable):
        fault.setattr(redis_lane.port._task, "call", taken_but_not_told)
        await keys.begin(EPOCH, FIRST)
    assert await keys.begin(EPOCH, FIRST) == Mark(MarkState.MINE, "r1")
    assert await keys.begin(EPOCH, TWIN) == Mark(MarkState.RUNNING, "r1")


async def test_redis_a_taking_whose_reply_got_lost_is_given_back(redis_lane, monkeypatch):
    keys, call = redis_lane.port.idempotency, redis_lane.port._task.call
    with lost_before_the_store(redis_lane, monkeypatch) as sent:
        await keys.begin(EPOCH, FIRST)
    await call(*sent[0])  # its old connection's last words, after the withdrawal
    assert await state_of(keys) is MarkState.MINE


async def test_redis_a_late_taking_leaves_the_key_with_the_one_that_was_told(redis_lane, monkeypatch):
    keys, call = redis_lane.port.idempotency, redis_lane.port._task.call
    with lost_before_the_store(redis_lane, monkeypatch) as sent:
        await keys.begin(EPOCH, FIRST)
    assert await keys.begin(EPOCH, FIRST) == Mark(MarkState.MINE, "r1")
    await call(*sent[0])
    assert await keys.begin(EPOCH, TWIN) == Mark(MarkState.RUNNING, "r1")


async def test_redis_writing_again_after_the_end_brings_nothing_back(redis_lane):
    keys = redis_lane.port.idempotency
    await keys.begin(EPOCH, FIRST)
    keys.release(FIRST)
    await keys.restore(EPOCH, [FIRST])
    assert await state_of(keys) is MarkState.MINE


async def test_redis_a_store_that_forgot_a_running_one_hears_of_its_end(redis_lane):
    keys = redis_lane.port.idempotency
    await keys.begin(EPOCH, FIRST)
    redis_lane.forget_everything()
    keys.ended(EPOCH, FIRST)
    keys.finish(FIRST)
    assert await keys.begin(EPOCH, TWIN) == Mark(MarkState.UNANSWERED, "r1")


async def test_redis_that_is_away_is_known_at_once():
    port = RedisAdmissionPort("redis://127.0.0.1:1/0", "x:")
    keys = port.idempotency
    for call in (
        keys.begin(EPOCH, FIRST),
        keys.keep(FIRST, b""),
        keys.answer("r"),
        keys.restore(EPOCH, [FIRST]),
    ):
        with pytest.raises(StoreUnavailable):
            await call
    await port.aclose()


async def test_memory_forgets_the_oldest_of_too_many(monkeypatch):
    monkeypatch.setattr("billing.admission.memory.idempotency.MARKERS_MAX", 3)
    keys = MemoryStore().idempotency
    for number in range(4):
        await keys.begin(EPOCH, Marker(f"k{number}", "same", f"r{number}"))
    assert await state_of(keys, Marker("k1", "same", "x")) is MarkState.RUNNING
    assert await state_of(keys, Marker("k0", "same", "x")) is MarkState.MINE


async def test_calls_keep_their_order_on_a_server_that_has_not_seen_their_scripts(own_lane):
    keys = own_lane.port.idempotency
    await keys.begin(EPOCH, FIRST)
    keys.ended(EPOCH, FIRST)
    keys.finish(FIRST)
    assert await keys.begin(EPOCH, TWIN) == Mark(MarkState.UNANSWERED, "r1")
