"""What one attempt says about the health of its key and channel. Pure: the store of health is elsewhere.

Client cancels, local refusals, lost races and the request's own faults say nothing.
"""

import datetime
from enum import StrEnum

import msgspec

from relay.core.end_reasons import ENDINGS, EndReason, HealthEffect
from relay.core.errors import AttemptFailed
from relay.core.retry import (
    KEY_IS_BAD,
    cooldown_of,
    is_own_fault,
    is_secret_lost,
    rejection_effect,
    status_of,
)


class Blames(StrEnum):
    KEY = "key"
    CHANNEL = "channel"


class AttemptVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Reported once for each attempt. effect: success, failure or neutral, never by_status.

    blames: whom a failure or a cooldown concerns. cooldown_s: seconds the key shall rest, 0 = none.
    reason: the end reason, or `status_503`: a class, never an upstream's text. at: seconds since the epoch.
    """

    channel_id: int
    key_id: int
    effect: HealthEffect
    blames: Blames
    cooldown_s: float
    reason: str
    at: float


def attempt_verdict(
    end: EndReason | AttemptFailed, *, channel_id: int, key_id: int, claimed: bool, wall: float
) -> AttemptVerdict:
    """claimed: the channel says it has this very model; counts for failures only. wall: seconds since the
    epoch.
    """
    effect, blames, cooldown_s, reason = HealthEffect.NEUTRAL, Blames.CHANNEL, 0.0, ""
    if isinstance(end, AttemptFailed):
        status = status_of(end)
        effect = _effect_of_failure(end, status, claimed=claimed)
        is_keys = status in KEY_IS_BAD or status == 429 or is_secret_lost(end)
        blames = Blames.KEY if is_keys else Blames.CHANNEL
        cooldown_s = cooldown_of(end, datetime.datetime.fromtimestamp(wall, datetime.UTC))
        reason = f"status_{status}" if status else end.reason.value
    else:
        effect, reason = ENDINGS[end].health, end.value
    return AttemptVerdict(
        channel_id=channel_id,
        key_id=key_id,
        effect=effect,
        blames=blames,
        cooldown_s=cooldown_s,
        reason=reason,
        at=wall,
    )


def _effect_of_failure(failure: AttemptFailed, status: int, *, claimed: bool) -> HealthEffect:
    if is_own_fault(failure):
        return HealthEffect.NEUTRAL
    if status:
        return rejection_effect(status, claimed=claimed)
    effect = ENDINGS[failure.reason].health
    return HealthEffect.NEUTRAL if effect is HealthEffect.BY_STATUS else effect
