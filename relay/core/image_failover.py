"""Image failover: which outcomes of a drawing are followed by another attempt, and how near it may be.

An allow-list. Each entry is a picture that may be paid twice, so do not widen it to raise the success rate:
an outcome belongs into tier 1 only if the upstream provably refused before it drew. `Idempotency-Key`
changes nothing here, and neither the retry budget nor `RETRY_TIMES` applies.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum

from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.retry import Reach
from relay.core.types import RelayFlags


class Tier(IntEnum):
    """How much risk of paying twice the operator takes."""

    OFF = 0
    REFUSED = 1
    AMBIGUOUS = 2
    UNCERTAIN = 3


class Outcome(StrEnum):
    """What became of one upstream request for a picture that did not succeed."""

    BUSY = "refused as too busy"
    REFUSED = "request or credential refused"
    SERVER_ERROR = "server error"
    UNKNOWN = "no usable answer"
    OTHER_STATUS = "other status"
    FINAL = "not the upstream's failure"
    """The client left, the gateway failed, or the answer was cut after its commit point."""


_ONCE = (Reach.NOWHERE, Reach.NOWHERE, Reach.NOWHERE)
TABLE: Mapping[Outcome, tuple[Reach, Reach, Reach, Reach]] = {
    Outcome.BUSY: (Reach.NOWHERE, Reach.NEXT_KEY, Reach.NEXT_KEY, Reach.SAME_KEY),
    Outcome.REFUSED: (Reach.NOWHERE, Reach.NEXT_KEY, Reach.NEXT_KEY, Reach.SAME_KEY),
    Outcome.SERVER_ERROR: (Reach.NOWHERE, Reach.NOWHERE, Reach.SAME_KEY, Reach.SAME_KEY),
    Outcome.UNKNOWN: (*_ONCE, Reach.SAME_KEY),
    Outcome.OTHER_STATUS: (*_ONCE, Reach.SAME_KEY),
    Outcome.FINAL: (*_ONCE, Reach.NOWHERE),
}
"""Outcome → what tier off, 1, 2 and 3 allow."""

_BUSY = frozenset({429, 503, 529, 530})
_REFUSED = frozenset({400, 401, 403, 404, 405, 413, 415, 422})
_GATEWAY_TIMEOUT = 504

_NO_USABLE_ANSWER = frozenset(
    {
        EndReason.CONNECT_FAILED,
        EndReason.HEADER_TIMEOUT,
        EndReason.FIRST_BYTE_TIMEOUT,
        EndReason.FIRST_EVENT_TIMEOUT,
        EndReason.IDLE_TIMEOUT,
        EndReason.TOTAL_TIMEOUT,
        EndReason.NON_STREAM_TIMEOUT,
        EndReason.UPSTREAM_RESET,
        EndReason.UPSTREAM_PROTOCOL_ERROR,
        EndReason.UPSTREAM_ERROR_EVENT,
        EndReason.BAD_CONTENT_TYPE,
        EndReason.EMPTY_RESPONSE,
        EndReason.INCOMPLETE,
    }
)
"""Timeouts, failed and cut connections, and a 2xx whose body is empty, unreadable or an error."""


def tier_of(flags: RelayFlags) -> Tier:
    """The two ranges mean nothing while failover is off; the wider one includes the other."""
    if not flags.images_failover:
        return Tier.OFF
    if flags.images_failover_uncertain:
        return Tier.UNCERTAIN
    return Tier.AMBIGUOUS if flags.images_failover_ambiguous else Tier.REFUSED


def outcome_of(failure: AttemptFailed) -> Outcome:
    """failure: of an attempt before its commit point."""
    if failure.reason is EndReason.UPSTREAM_REJECTED:
        return _outcome_of_status(failure.status or 0)
    return Outcome.UNKNOWN if failure.reason in _NO_USABLE_ANSWER else Outcome.FINAL


def reach_of_image(failure: AttemptFailed, tier: Tier) -> Reach:
    return TABLE[outcome_of(failure)][tier]


def may_have_drawn(failure: AttemptFailed) -> bool:
    """Whether an attempt that follows this failure may draw, and pay for, the picture a second time."""
    return TABLE[outcome_of(failure)][Tier.REFUSED] is Reach.NOWHERE


def _outcome_of_status(status: int) -> Outcome:
    if status in _BUSY:
        return Outcome.BUSY
    if status in _REFUSED:
        return Outcome.REFUSED
    if status == _GATEWAY_TIMEOUT:
        return Outcome.UNKNOWN
    return Outcome.SERVER_ERROR if 500 <= status <= 599 else Outcome.OTHER_STATUS
