"""How an attempt can end: one closed list, with blame, effect on health and what is charged.

Each attempt ends with exactly one of these. Adding one: add the member and its row in `ENDINGS`
(a test demands the row), then the place that decides it in `relay.upstream`, then a named test.
"""

from dataclasses import dataclass
from enum import StrEnum


class EndReason(StrEnum):
    COMPLETED = "completed"
    COMPLETED_WITHOUT_TERMINAL = "completed_without_terminal"
    INCOMPLETE = "incomplete"
    UPSTREAM_ERROR_EVENT = "upstream_error_event"
    UPSTREAM_RESET = "upstream_reset"
    UPSTREAM_PROTOCOL_ERROR = "upstream_protocol_error"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    NON_STREAM_TIMEOUT = "non_stream_timeout"
    CONNECT_FAILED = "connect_failed"
    HEADER_TIMEOUT = "header_timeout"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    FIRST_EVENT_TIMEOUT = "first_event_timeout"
    BAD_CONTENT_TYPE = "bad_content_type"
    EMPTY_RESPONSE = "empty_response"
    UPSTREAM_REJECTED = "upstream_rejected"
    RESPONSE_TOO_LARGE = "response_too_large"
    CLIENT_DISCONNECTED = "client_disconnected"
    CLIENT_TOO_SLOW = "client_too_slow"
    PING_FAILED = "ping_failed"
    HEDGE_LOST = "hedge_lost"
    BALANCE_EXHAUSTED = "balance_exhausted"
    REVOKED = "revoked"
    STOPPED_BY_OPERATOR = "stopped_by_operator"
    GATEWAY_SHUTDOWN = "gateway_shutdown"
    GATEWAY_ERROR = "gateway_error"
    ABANDONED = "abandoned"


class Blame(StrEnum):
    NOBODY = "nobody"
    UPSTREAM = "upstream"
    CLIENT = "client"
    GATEWAY = "gateway"


class HealthEffect(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"
    BY_STATUS = "by_status"
    """Depends on the HTTP status: see `relay.core.retry.rejection_effect`."""


class Charge(StrEnum):
    """What the tenant pays when the attempt ended so *after* its commit point."""

    USAGE = "usage"
    """Reported usage; an estimate, flagged, where the upstream reported none."""
    WHAT_ARRIVED = "what_arrived"
    NOTHING = "nothing"
    LAST_CHECKPOINT = "last_checkpoint"


@dataclass(frozen=True, slots=True)
class Ending:
    blame: Blame
    health: HealthEffect
    charge: Charge


def _upstream_failure(charge: Charge) -> Ending:
    return Ending(Blame.UPSTREAM, HealthEffect.FAILURE, charge)


def _neutral(blame: Blame, charge: Charge = Charge.WHAT_ARRIVED) -> Ending:
    return Ending(blame, HealthEffect.NEUTRAL, charge)


ENDINGS: dict[EndReason, Ending] = {
    EndReason.COMPLETED: Ending(Blame.NOBODY, HealthEffect.SUCCESS, Charge.USAGE),
    EndReason.COMPLETED_WITHOUT_TERMINAL: Ending(Blame.UPSTREAM, HealthEffect.SUCCESS, Charge.USAGE),
    EndReason.INCOMPLETE: _upstream_failure(Charge.WHAT_ARRIVED),
    EndReason.UPSTREAM_ERROR_EVENT: _upstream_failure(Charge.WHAT_ARRIVED),
    EndReason.UPSTREAM_RESET: _upstream_failure(Charge.WHAT_ARRIVED),
    EndReason.UPSTREAM_PROTOCOL_ERROR: _upstream_failure(Charge.WHAT_ARRIVED),
    EndReason.IDLE_TIMEOUT: _upstream_failure(Charge.WHAT_ARRIVED),
    EndReason.TOTAL_TIMEOUT: _upstream_failure(Charge.WHAT_ARRIVED),
    EndReason.NON_STREAM_TIMEOUT: _upstream_failure(Charge.NOTHING),
    EndReason.CONNECT_FAILED: _upstream_failure(Charge.NOTHING),
    EndReason.HEADER_TIMEOUT: _upstream_failure(Charge.NOTHING),
    EndReason.FIRST_BYTE_TIMEOUT: _upstream_failure(Charge.NOTHING),
    EndReason.FIRST_EVENT_TIMEOUT: _upstream_failure(Charge.NOTHING),
    EndReason.BAD_CONTENT_TYPE: _upstream_failure(Charge.NOTHING),
    EndReason.EMPTY_RESPONSE: _upstream_failure(Charge.NOTHING),
    EndReason.UPSTREAM_REJECTED: Ending(Blame.UPSTREAM, HealthEffect.BY_STATUS, Charge.NOTHING),
    EndReason.RESPONSE_TOO_LARGE: _neutral(Blame.GATEWAY),
    EndReason.CLIENT_DISCONNECTED: _neutral(Blame.CLIENT),
    EndReason.CLIENT_TOO_SLOW: _neutral(Blame.CLIENT),
    EndReason.PING_FAILED: _neutral(Blame.CLIENT),
    EndReason.HEDGE_LOST: _neutral(Blame.NOBODY, Charge.NOTHING),
    EndReason.BALANCE_EXHAUSTED: _neutral(Blame.NOBODY),
    EndReason.REVOKED: _neutral(Blame.NOBODY),
    EndReason.STOPPED_BY_OPERATOR: _neutral(Blame.NOBODY),
    EndReason.GATEWAY_SHUTDOWN: _neutral(Blame.GATEWAY),
    EndReason.GATEWAY_ERROR: _neutral(Blame.GATEWAY),
    EndReason.ABANDONED: _neutral(Blame.GATEWAY, Charge.LAST_CHECKPOINT),
}

CLIENT_SIDE: frozenset[EndReason] = frozenset(
    reason for reason, ending in ENDINGS.items() if ending.blame is Blame.CLIENT
)
"""Nobody is left to read: queued bytes are discarded and nothing is told in-band."""

SUCCESSFUL: frozenset[EndReason] = frozenset({EndReason.COMPLETED, EndReason.COMPLETED_WITHOUT_TERMINAL})
