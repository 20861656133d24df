"""What each way an attempt can end says about its key and channel."""

import pytest

from relay.core.end_reasons import ENDINGS, EndReason, HealthEffect
from relay.core.errors import AttemptFailed
from relay.core.health import AttemptVerdict, Blames, attempt_verdict

WALL = 1_772_366_400.0  # Sun, 01 Mar 2026 12:00:00 GMT


def verdict(end: EndReason | AttemptFailed, *, claimed: bool = False) -> AttemptVerdict:
    return attempt_verdict(end, channel_id=1, key_id=2, claimed=claimed, wall=WALL)


def rejected(status: int, **fields) -> AttemptFailed:
    return AttemptFailed(EndReason.UPSTREAM_REJECTED, status=status, **fields)


@pytest.mark.parametrize("reason", sorted(set(EndReason) - {EndReason.UPSTREAM_REJECTED}))
def test_an_end_has_the_effect_of_its_row(reason):
    assert verdict(reason).effect is ENDINGS[reason].health
    assert verdict(AttemptFailed(reason)).effect is ENDINGS[reason].health
    assert verdict(reason).cooldown_s == 0


@pytest.mark.parametrize("status", [401, 402, 403])
def test_a_refused_credential_is_the_keys_failure(status):
    told = verdict(rejected(status))
    assert (told.effect, told.blames, told.cooldown_s) == (HealthEffect.FAILURE, Blames.KEY, 0)
    assert told.reason == f"status_{status}"


@pytest.mark.parametrize(
    "failure",
    [
        AttemptFailed(EndReason.UPSTREAM_ERROR_EVENT, kind="authentication_error"),
        AttemptFailed(EndReason.CONNECT_FAILED, error_class="secret_lost"),
    ],
)
def test_so_is_one_refused_inside_a_200_and_one_that_cannot_be_unsealed(failure):
    assert (verdict(failure).effect, verdict(failure).blames) == (HealthEffect.FAILURE, Blames.KEY)


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 529])
def test_a_server_error_is_the_channels_failure(status):
    assert (verdict(rejected(status)).effect, verdict(rejected(status)).blames) == (
        HealthEffect.FAILURE,
        Blames.CHANNEL,
    )


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_the_requests_own_fault_says_nothing(status):
    assert verdict(rejected(status)).effect is HealthEffect.NEUTRAL
    assert verdict(rejected(500, code="context_length_exceeded")).effect is HealthEffect.NEUTRAL


def test_404_of_a_claimed_model_is_the_channels_failure():
    assert verdict(rejected(404), claimed=True).effect is HealthEffect.FAILURE


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        (None, 30),
        ("7", 30),
        ("45", 45),
        ("9999", 600),
        ("Sun, 01 Mar 2026 12:02:00 GMT", 120),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 30),
        ("soon", 30),
    ],
)
def test_429_rests_the_key_and_is_no_failure(retry_after, seconds):
    told = verdict(rejected(429, retry_after=retry_after))
    assert (told.effect, told.blames, told.cooldown_s) == (HealthEffect.NEUTRAL, Blames.KEY, seconds)


@pytest.mark.parametrize(
    ("kind", "effect", "cooldown_s"),
    [
        ("rate_limit_error", HealthEffect.NEUTRAL, 30),
        ("invalid_request_error", HealthEffect.NEUTRAL, 0),
        ("overloaded_error", HealthEffect.FAILURE, 0),
        ("server_error", HealthEffect.FAILURE, 0),
    ],
)
def test_an_error_inside_a_200_counts_as_the_status_it_stands_for(kind, effect, cooldown_s):
    told = verdict(AttemptFailed(EndReason.UPSTREAM_ERROR_EVENT, kind=kind))
    assert (told.effect, told.cooldown_s) == (effect, cooldown_s)
