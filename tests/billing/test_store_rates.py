"""What may start within a minute."""

import random

import msgspec
import redis as redis_client
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.admission.memory.rates import Rates
from billing.admission.open_record import Admitted, RateAsk, RefusedLimit
from billing.admission.redis.scripts import _FOLDER
from tests.billing.asks import EPOCH, ask


async def test_a_rate_is_full_at_its_limit_and_free_again_after_a_minute(lane):
    for number in range(3):
        assert await lane.port.admit(EPOCH, ask(f"r{number}", rates=[("rpm", 3, 1)])) == Admitted()
    refused = await lane.port.admit(EPOCH, ask("s", rates=[("rpm", 3, 1)]))
    assert (refused.name, refused.limit) == ("rpm", 3)
    assert 60 <= refused.retry_after_s <= 65
    assert await lane.port.admit(EPOCH, ask("t", rates=[("other", 3, 1)])) == Admitted()
    lane.later(55)
    assert (await lane.port.admit(EPOCH, ask("s", rates=[("rpm", 3, 1)]))).name == "rpm"
    lane.later(10)
    assert await lane.port.admit(EPOCH, ask("s", rates=[("rpm", 3, 3)])) == Admitted()


async def test_what_started_earlier_is_free_earlier(lane):
    await lane.port.admit(EPOCH, ask("r", rates=[("tpm", 100, 60)]))
    lane.later(30)
    await lane.port.admit(EPOCH, ask("s", rates=[("tpm", 100, 40)]))
    assert 30 <= (await lane.port.admit(EPOCH, ask("t", rates=[("tpm", 100, 60)]))).retry_after_s <= 35
    assert 60 <= (await lane.port.admit(EPOCH, ask("t", rates=[("tpm", 100, 61)]))).retry_after_s <= 65
    lane.later(35)
    assert await lane.port.admit(EPOCH, ask("t", rates=[("tpm", 100, 60)])) == Admitted()


async def test_an_amount_beyond_the_limit_never_fits(lane):
    assert await lane.port.admit(EPOCH, ask(rates=[("tpm", 100, 101)])) == RefusedLimit("tpm", 100, 60)


async def test_corrections_count(lane):
    await lane.port.admit(EPOCH, ask("r", rates=[("tpm", 100, 90)]))
    await lane.port.correct_rates({"tpm": -80, "other": 100})
    assert await lane.port.admit(EPOCH, ask("s", rates=[("tpm", 100, 90)])) == Admitted()
    refused = await lane.port.admit(EPOCH, ask("t", rates=[("other", 100, 1)]))
    assert refused.name == "other"
    await lane.port.correct_rates({})


async def test_a_correction_gives_back_no_more_than_was_counted(lane):
    await lane.port.correct_rates({"tpm": -1000})
    refused = await lane.port.admit(EPOCH, ask("r", rates=[("tpm", 100, 101)]))
    assert refused == RefusedLimit("tpm", 100, 60)
    assert await lane.port.admit(EPOCH, ask("s", rates=[("tpm", 100, 100)])) == Admitted()
    assert isinstance(await lane.port.admit(EPOCH, ask("t", rates=[("tpm", 100, 1)])), RefusedLimit)


starts = st.lists(st.tuples(st.integers(0, 70_000), st.integers(0, 60)), max_size=12)


def filled(starts) -> Rates:
    rates = Rates()
    for at_ms, amount in sorted(starts):
        rates.add("r", amount, 600 + at_ms / 1000)
    return rates


@given(starts=starts, limit=st.integers(1, 100), amount=st.integers(1, 100))
@settings(deadline=None, max_examples=300)
def test_after_the_wait_it_fits_and_a_second_earlier_it_does_not(starts, limit, amount):
    rates, now, wanted = filled(starts), 670.0, RateAsk("r", limit, amount)
    wait = rates.retry_after_s(wanted, now)
    if amount > limit:
        assert wait == 60
    elif wait:
        assert filled(starts).retry_after_s(wanted, now + wait - 1) > 0
        assert rates.retry_after_s(wanted, now + wait) == 0


@given(starts=st.lists(st.integers(0, 200_000), max_size=60), limit=st.integers(1, 5))
@settings(deadline=None, max_examples=300)
def test_never_more_than_the_limit_within_any_minute(starts, limit):
    rates, taken = Rates(), []
    for at_ms in sorted(starts):
        if rates.retry_after_s(RateAsk("r", limit, 1), at_ms / 1000) == 0:
            rates.add("r", 1, at_ms / 1000)
            taken.append(at_ms)
    for first, later in zip(taken, taken[limit:], strict=False):
        assert later - first >= 60_000


def test_rates_that_nobody_uses_are_forgotten():
    rates = Rates()
    for number in range(100):
        rates.add(f"r{number}", 1, 100.0)
    rates.add("fresh", 1, 180.0)
    assert list(rates._windows) == ["fresh"]


def test_redis_reckons_as_the_process_does(redis_server, redis_prefix):
    """Both formulas over the same windows, at moments the test chooses."""
    body = """
    local answer = {}
    for _, case in ipairs(cmsgpack.unpack(ARGV[1])) do
      answer[#answer + 1] = rate_wait(case[1], case[2], 670000, case[3], case[4])
    end
    return answer
    """
    chance = random.Random(5)
    cases, expected = [], []
    for _ in range(500):
        rates = filled([(chance.randrange(5_001, 70_000), chance.randint(1, 10**9)) for _ in range(8)])
        window = rates._windows["r"]
        limit, amount = chance.randint(1, 10**10), chance.randint(1, 10**9)
        expected.append(rates.retry_after_s(RateAsk("r", limit, amount), 670.0))
        cases.append((limit, amount, [number for part in window.parts for number in part], window.total))
    libraries = "".join((_FOLDER / f"{name}.lua").read_text() for name in ("common", "ceilings"))
    with redis_client.Redis.from_url(redis_server) as client:
        answers = client.eval(libraries + body, 1, redis_prefix, msgspec.msgpack.encode(cases))
    assert answers == expected
    assert len(set(expected)) > 10
