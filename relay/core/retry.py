"""After a failed attempt: is there another one, what does it say about health, what is the client told.

Closed tables: what is not named starts no other attempt. Whether the *request* may be replayed at all is
`relay.core.path_families`; image failover is a table of its own. Must not import a clock or a transport.
"""

import datetime
import re
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from enum import StrEnum

from relay.core.end_reasons import ENDINGS, EndReason, HealthEffect
from relay.core.errors import AttemptFailed, Refusal
from relay.core.scrubbing import scrub as scrub  # callers of this table scrub what they record
from relay.core.scrubbing import word

MAX_RETRY_AFTER_S = 600
COOLDOWN_S = 30
"""Of a key that its upstream refused with 429, where `Retry-After` does not ask for more."""

KEY_IS_BAD = frozenset({401, 402, 403})
"""The upstream refuses the key: another one may do, the tenant is never told."""

_RETRIED_STATUSES = frozenset({408, 409, 425, 429}) | KEY_IS_BAD
_OWN_FAULTS = frozenset(
    {"context_length_exceeded", "string_above_max_length", "content_policy_violation", "content_filter"}
    | {"invalid_prompt"}
)
"""Codes that say the request itself is at fault, whatever status carries them."""

_STATUS_OF_KIND = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 503,
}
"""For an error inside a 200: the status its kind would have come with."""


class Reach(StrEnum):
    """Where the attempt after a failed one may go: as near as this, or farther."""

    SAME_KEY = "same key"
    NEXT_KEY = "next key"
    NEXT_CHANNEL = "next channel"
    NOWHERE = "nowhere"


_PARAM = re.compile(r"[A-Za-z0-9_.\[\]-]{1,128}", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]*)?", re.ASCII)


def starts_another_attempt(failure: AttemptFailed, *, claimed: bool) -> bool:
    """Whether a failure before the commit point is one that another channel may not share.

    claimed: the channel says it has this very model, so its 404 is the upstream's fault.
    """
    if failure.code in _OWN_FAULTS:
        return False
    if failure.reason is EndReason.UPSTREAM_REJECTED:
        return _is_retried_status(failure.status or 0, claimed=claimed)
    if failure.reason is EndReason.UPSTREAM_ERROR_EVENT and (failure.status or 0) >= 400:
        return _is_retried_status(failure.status or 0, claimed=claimed)
    return ENDINGS[failure.reason].is_retried


def reach_of(failure: AttemptFailed, *, claimed: bool) -> Reach:
    """Where a replayable request that failed so may be tried again.

    A timeout leaves the channel at once: its other keys end at the same upstream. A refused connection and
    a server error may pass, so the same key comes first.
    """
    if not starts_another_attempt(failure, claimed=claimed):
        return Reach.NOWHERE
    if is_timeout(failure):
        return Reach.NEXT_CHANNEL
    if _is_settings_fault(failure):
        return Reach.NEXT_KEY
    is_server_error = 500 <= status_of(failure) <= 599
    if is_server_error or failure.reason is EndReason.CONNECT_FAILED:
        return Reach.SAME_KEY
    return Reach.NEXT_KEY


def status_of(failure: AttemptFailed) -> int:
    """The status it came with, for an error inside a 200 the one it stands for; 0 where there is none."""
    if failure.reason is EndReason.UPSTREAM_REJECTED:
        return failure.status or 0
    if failure.reason is EndReason.UPSTREAM_ERROR_EVENT:
        status = failure.status or 0
        return status if status >= 400 else _STATUS_OF_KIND.get(failure.kind or "", 0)
    return 0


def is_timeout(failure: AttemptFailed) -> bool:
    """Of any phase: a connect that timed out is told apart by its error class alone."""
    return ENDINGS[failure.reason].is_timeout or (
        failure.reason is EndReason.CONNECT_FAILED and "timeout" in failure.error_class.lower()
    )


def cooldown_of(failure: AttemptFailed, now: datetime.datetime | None) -> float:
    """Seconds that the key shall rest: after a 429 only. now: see `parse_retry_after`."""
    if status_of(failure) != 429:
        return 0.0
    return float(max(COOLDOWN_S, parse_retry_after(failure.retry_after, now) or 0))


def is_secret_lost(failure: AttemptFailed) -> bool:
    """The credential could not be unsealed."""
    return failure.error_class.startswith("secret_")


def is_own_fault(failure: AttemptFailed) -> bool:
    """The request itself is at fault, whatever status says so."""
    return failure.code in _OWN_FAULTS


def rejection_effect(status: int, *, claimed: bool) -> HealthEffect:
    """What a rejecting status says about the channel. 429 is neutral here: it sets a cooldown instead."""
    if status in KEY_IS_BAD or status == 408 or 500 <= status <= 599 or (status == 404 and claimed):
        return HealthEffect.FAILURE
    return HealthEffect.NEUTRAL


def final_refusal(failures: Sequence[AttemptFailed], *, now: datetime.datetime | None = None) -> Refusal:
    """What the client is told when every attempt failed.

    The last meaningful upstream status, else 504 after a timeout, else 502. failures: in order. now:
    aware; only needed to understand a `Retry-After` that is a date.
    """
    if not failures:
        return no_channel_available("No channel is available.")
    for failure in reversed(failures):
        status = _meaningful_status(failure)
        if status:
            return _told(failure, status, now)
    if all(status_of(failure) in KEY_IS_BAD for failure in failures):
        return _bad_gateway("The gateway's credentials were refused.", "upstream_credentials_exhausted")
    last = failures[-1]
    if is_timeout(last):
        return Refusal(504, "The upstream did not answer in time.", kind="api_error", code="upstream_timeout")
    if last.reason is EndReason.RESPONSE_TOO_LARGE:
        return _bad_gateway("The upstream's answer is larger than the gateway accepts.", "response_too_large")
    return _bad_gateway(_message(last, "The upstream failed to answer."), word(last.code) or "upstream_error")


def no_channel_available(message: str) -> Refusal:
    """All that could serve are out, cooling down, or full."""
    kind, code = "api_error", "no_channel_available"
    return Refusal(503, message, kind=kind, code=code, retry_after_s=COOLDOWN_S)


def parse_retry_after(value: str | None, now: datetime.datetime | None) -> int | None:
    """`Retry-After` (RFC 9110, section 10.2.3) as whole seconds, rounded up, from 0 to 600.

    now: aware; without it only seconds are understood. None for what is neither seconds nor a date.
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return _bounded(float(text))
    if now is None or not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return _bounded((moment - now).total_seconds())
    except (ValueError, OverflowError):
        return None


def _is_retried_status(status: int, *, claimed: bool) -> bool:
    return status in _RETRIED_STATUSES or 500 <= status <= 599 or (status == 404 and claimed)


def _is_settings_fault(failure: AttemptFailed) -> bool:
    """The credential or the channel's settings made no request at all: once more would end the same."""
    return is_secret_lost(failure) or failure.error_class.startswith("configuration_")


def _meaningful_status(failure: AttemptFailed) -> int | None:
    """The status that tells the client something; not those that concern the operator alone."""
    status = status_of(failure)
    if status in KEY_IS_BAD:
        return None
    if 400 <= status <= 599:
        return status
    return 400 if is_own_fault(failure) else None


def _told(failure: AttemptFailed, status: int, now: datetime.datetime | None) -> Refusal:
    return Refusal(
        status,
        _message(failure, f"The upstream answered with status {status}."),
        kind=word(failure.kind) or _default_kind(status),
        code=word(failure.code),
        param=failure.param if failure.param and _PARAM.fullmatch(failure.param) else None,
        retry_after_s=parse_retry_after(failure.retry_after, now) if status in {429, 503} else None,
    )


def _default_kind(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "api_error"


def _message(failure: AttemptFailed, otherwise: str) -> str:
    return scrub(failure.message) or otherwise


def _bad_gateway(message: str, code: str) -> Refusal:
    return Refusal(502, message, kind="api_error", code=code)


def _bounded(seconds: float) -> int:
    return max(0, min(MAX_RETRY_AFTER_S, -int(-seconds // 1)))
