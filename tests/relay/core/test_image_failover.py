"""Image failover: every outcome in every tier, written out as the operator reads it."""

import pytest

from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.image_failover import Tier, may_have_drawn, reach_of_image, tier_of
from relay.core.retry import Reach
from relay.core.types import RelayFlags

ONCE, ELSEWHERE, SAME_KEY = Reach.NOWHERE, Reach.NEXT_KEY, Reach.SAME_KEY

NAMED_STATUSES = {
    **dict.fromkeys((429, 503, 529, 530), (ONCE, ELSEWHERE, ELSEWHERE, SAME_KEY)),
    **dict.fromkeys((400, 401, 403, 404, 405, 413, 415, 422), (ONCE, ELSEWHERE, ELSEWHERE, SAME_KEY)),
    504: (ONCE, ONCE, ONCE, SAME_KEY),
}
OTHER_5XX = (ONCE, ONCE, SAME_KEY, SAME_KEY)
ANY_OTHER = (ONCE, ONCE, ONCE, SAME_KEY)

NO_USABLE_ANSWER = {
    EndReason.CONNECT_FAILED, EndReason.HEADER_TIMEOUT, EndReason.FIRST_BYTE_TIMEOUT, EndReason.FIRST_EVENT_TIMEOUT,
    EndReason.IDLE_TIMEOUT, EndReason.TOTAL_TIMEOUT, EndReason.NON_STREAM_TIMEOUT, EndReason.UPSTREAM_RESET,
    EndReason.UPSTREAM_PROTOCOL_ERROR, EndReason.UPSTREAM_ERROR_EVENT, EndReason.BAD_CONTENT_TYPE,
    EndReason.EMPTY_RESPONSE, EndReason.INCOMPLETE,
}  # fmt: skip


def in_all_tiers(failure: AttemptFailed) -> tuple[Reach, ...]:
    return tuple(reach_of_image(failure, tier) for tier in Tier)


@pytest.mark.parametrize("status", range(300, 620))
def test_each_status_in_each_tier(status: int) -> None:
    failure = AttemptFailed(EndReason.UPSTREAM_REJECTED, status=status)
    expected = NAMED_STATUSES.get(status, OTHER_5XX if 500 <= status <= 599 else ANY_OTHER)
    assert in_all_tiers(failure) == expected
    assert may_have_drawn(failure) is (expected[Tier.REFUSED] is ONCE)


@pytest.mark.parametrize("reason", sorted(set(EndReason) - {EndReason.UPSTREAM_REJECTED}))
def test_each_end_without_a_status_in_each_tier(reason: EndReason) -> None:
    expected = ANY_OTHER if reason in NO_USABLE_ANSWER else (ONCE,) * 4
    assert in_all_tiers(AttemptFailed(reason)) == expected


@pytest.mark.parametrize("status", [400, 429, 500, 503])
def test_an_error_in_a_2xx_is_no_refusal_whatever_status_it_names(status: int) -> None:
    assert in_all_tiers(AttemptFailed(EndReason.UPSTREAM_ERROR_EVENT, status=status)) == ANY_OTHER


@pytest.mark.parametrize(
    ("enabled", "ambiguous", "uncertain", "tier"),
    [
        (False, False, False, Tier.OFF),
        (False, True, True, Tier.OFF),
        (True, False, False, Tier.REFUSED),
        (True, True, False, Tier.AMBIGUOUS),
        (True, False, True, Tier.UNCERTAIN),
        (True, True, True, Tier.UNCERTAIN),
    ],
)
def test_tier_of_the_flags(enabled: bool, ambiguous: bool, uncertain: bool, tier: Tier) -> None:
    flags = RelayFlags(
        images_failover=enabled, images_failover_ambiguous=ambiguous, images_failover_uncertain=uncertain
    )
    assert tier_of(flags) is tier
