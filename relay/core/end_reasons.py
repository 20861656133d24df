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
    """meaning: one sentence for operators; docs/end-reasons.md is made from it.

    is_retried: before the commit point, a request that may be replayed is tried on another channel (a
    rejection is judged by its status instead, see `relay.core.retry`). is_timeout: the client hears 504.
    """

    blame: Blame
    health: HealthEffect
    charge: Charge
    meaning: str
    is_retried: bool = False
    is_timeout: bool = False


def _upstream_failure(
    charge: Charge, meaning: str, *, is_retried: bool = False, is_timeout: bool = False
) -> Ending:
    return Ending(Blame.UPSTREAM, HealthEffect.FAILURE, charge, meaning, is_retried, is_timeout)


def _neutral(blame: Blame, meaning: str, *, charge: Charge = Charge.WHAT_ARRIVED) -> Ending:
    return Ending(blame, HealthEffect.NEUTRAL, charge, meaning)


ENDINGS: dict[EndReason, Ending] = {
    EndReason.COMPLETED: Ending(
        Blame.NOBODY, HealthEffect.SUCCESS, Charge.USAGE, "The answer came whole, with its end mark."
    ),
    EndReason.COMPLETED_WITHOUT_TERMINAL: Ending(
        Blame.UPSTREAM,
        HealthEffect.SUCCESS,
        Charge.USAGE,
        "Every choice finished, but the end mark never came; the gateway added it.",
    ),
    EndReason.INCOMPLETE: _upstream_failure(
        Charge.WHAT_ARRIVED,
        "The body ended in the middle of an answer, without finish reason or end mark.",
        is_retried=True,
    ),
    EndReason.UPSTREAM_ERROR_EVENT: _upstream_failure(
        Charge.WHAT_ARRIVED, "The upstream said 200 and then sent an error.", is_retried=True
    ),
    EndReason.UPSTREAM_RESET: _upstream_failure(
        Charge.WHAT_ARRIVED, "The upstream's connection broke after the request was sent.", is_retried=True
    ),
    EndReason.UPSTREAM_PROTOCOL_ERROR: _upstream_failure(
        Charge.WHAT_ARRIVED,
        "What came was broken HTTP, broken chunks, or no JSON where JSON was due.",
        is_retried=True,
    ),
    EndReason.IDLE_TIMEOUT: _upstream_failure(
        Charge.WHAT_ARRIVED,
        "A running answer fell silent: no byte, or no event, for too long.",
        is_timeout=True,
    ),
    EndReason.TOTAL_TIMEOUT: _upstream_failure(
        Charge.WHAT_ARRIVED, "A stream was still running when its last limit came.", is_timeout=True
    ),
    EndReason.NON_STREAM_TIMEOUT: _upstream_failure(
        Charge.NOTHING, "A whole answer was not there in time; no further attempt is made.", is_timeout=True
    ),
    EndReason.CONNECT_FAILED: _upstream_failure(
        Charge.NOTHING,
        "No connection: refused, no name, TLS or proxy failed, too slow. Nothing was sent.",
        is_retried=True,
    ),
    EndReason.HEADER_TIMEOUT: _upstream_failure(
        Charge.NOTHING,
        "The request went out, or could not be handed over, and no response headers came.",
        is_retried=True,
        is_timeout=True,
    ),
    EndReason.FIRST_BYTE_TIMEOUT: _upstream_failure(
        Charge.NOTHING,
        "200 came and then nothing at all, not even a keepalive.",
        is_retried=True,
        is_timeout=True,
    ),
    EndReason.FIRST_EVENT_TIMEOUT: _upstream_failure(
        Charge.NOTHING,
        "200 and keepalives came, but no event that says anything.",
        is_retried=True,
        is_timeout=True,
    ),
    EndReason.BAD_CONTENT_TYPE: _upstream_failure(
        Charge.NOTHING,
        "200 with something else than was asked for, an HTML page for example.",
        is_retried=True,
    ),
    EndReason.EMPTY_RESPONSE: _upstream_failure(
        Charge.NOTHING, "200 with an empty body, or with nothing but the end mark.", is_retried=True
    ),
    EndReason.UPSTREAM_REJECTED: Ending(
        Blame.UPSTREAM, HealthEffect.BY_STATUS, Charge.NOTHING, "The upstream answered with an error status."
    ),
    EndReason.RESPONSE_TOO_LARGE: _neutral(
        Blame.GATEWAY, "One event or the whole answer is larger than the gateway accepts."
    ),
    EndReason.CLIENT_DISCONNECTED: _neutral(Blame.CLIENT, "The client closed its connection."),
    EndReason.CLIENT_TOO_SLOW: _neutral(Blame.CLIENT, "The client took nothing of a write for too long."),
    EndReason.PING_FAILED: _neutral(Blame.CLIENT, "A keepalive could not be written."),
    EndReason.HEDGE_LOST: _neutral(Blame.NOBODY, "A parallel attempt answered first.", charge=Charge.NOTHING),
    EndReason.BALANCE_EXHAUSTED: _neutral(Blame.NOBODY, "The tenant's balance ran out during the answer."),
    EndReason.REVOKED: _neutral(Blame.NOBODY, "The API key or its tenant was closed during the answer."),
    EndReason.STOPPED_BY_OPERATOR: _neutral(Blame.NOBODY, "An operator ended the request."),
    EndReason.GATEWAY_SHUTDOWN: _neutral(
        Blame.GATEWAY, "The process was stopped and its grace for running requests was over."
    ),
    EndReason.GATEWAY_ERROR: _neutral(Blame.GATEWAY, "The gateway itself failed; its log says where."),
    EndReason.ABANDONED: _neutral(
        Blame.GATEWAY,
        "The process died with the request; found afterwards.",
        charge=Charge.LAST_CHECKPOINT,
    ),
}

CLIENT_SIDE: frozenset[EndReason] = frozenset(
    reason for reason, ending in ENDINGS.items() if ending.blame is Blame.CLIENT
)
"""Nobody is left to read: queued bytes are discarded and nothing is told in-band."""

SUCCESSFUL: frozenset[EndReason] = frozenset({EndReason.COMPLETED, EndReason.COMPLETED_WITHOUT_TERMINAL})
