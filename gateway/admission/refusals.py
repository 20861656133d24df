"""What a client is told when its request may not run: which limit, how much is missing, when to try again."""

from billing.admission.open_record import RefusedBalance, RefusedLimit
from billing.core.money import usd_text
from relay.core.errors import Refusal

_LIMITS = {
    "api_key": "this API key",
    "tenant": "this account",
    "channel": "the upstream channel",
    "upstream_key": "the upstream channel",
}


def limit_refusal(refused: RefusedLimit) -> Refusal:
    """429 naming the limit; for the operator's own ceilings, which are no fault of the tenant, 503."""
    if not refused.name:
        message = "Every channel that serves this model is at its limit of concurrent requests."
        return Refusal(
            503, message, kind="api_error", code="channels_at_capacity", retry_after_s=refused.retry_after_s
        )
    return Refusal(
        429,
        f"Limit reached: {_limit_text(refused)}.",
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        retry_after_s=refused.retry_after_s,
        headers=_rate_headers(refused),
    )


def balance_refusal(refused: RefusedBalance) -> Refusal:
    needed, available = usd_text(refused.needed_nano), usd_text(refused.available_nano)
    message = (
        f"The balance does not cover this request: up to {needed} USD is needed, {available} USD available."
    )
    return Refusal(402, message, kind="insufficient_quota", code="insufficient_quota")


def model_not_priced(model: str) -> Refusal:
    message = f"The model `{model[:200]}` has no price yet. Ask the operator."
    return Refusal(503, message, kind="api_error", code="model_not_priced")


def store_unavailable() -> Refusal:
    message = "The gateway cannot check balances and limits right now. Try again."
    return Refusal(503, message, kind="api_error", code="admission_unavailable", retry_after_s=1)


ORIGINAL_ID = "X-Relay-Original-Request-Id"
_NO_RETRY = ("X-Should-Retry", "false")
"""For SDKs, which repeat any 409 otherwise."""
_KEY_RETRY_AFTER_S = 10


def key_reused(request_id: str) -> Refusal:
    message = "This Idempotency-Key was used for another request: method, path or body differ."
    return _conflict("idempotency_key_reused", message, request_id, _NO_RETRY)


def key_in_use(request_id: str) -> Refusal:
    message = f"Request {request_id} with this Idempotency-Key still runs. Try again later."
    return _conflict("idempotency_key_in_use", message, request_id, retry_after_s=_KEY_RETRY_AFTER_S)


def not_replayable(request_id: str) -> Refusal:
    message = (
        f"Request {request_id} with this Idempotency-Key was answered, and the answer is not kept: it was"
        " streamed, too large, or had to make room. It does not run a second time."
    )
    return _conflict("idempotency_not_replayable", message, request_id, _NO_RETRY)


def _conflict(
    code: str, message: str, request_id: str, *headers: tuple[str, str], retry_after_s: int | None = None
) -> Refusal:
    named = ((ORIGINAL_ID, request_id), *headers)
    return Refusal(409, message, code=code, retry_after_s=retry_after_s, headers=named)


_RATES = {"rpm": ("requests", "requests per minute"), "tpm": ("tokens", "tokens per minute")}
"""By a rate's prefix: what OpenAI's `x-ratelimit-*` headers call it, and what people do."""


def _rate_headers(refused: RefusedLimit) -> tuple[tuple[str, str], ...]:
    """As SDKs read them: https://platform.openai.com/docs/guides/rate-limits. None for a ceiling."""
    rate = _RATES.get(refused.name.partition(":")[0])
    if rate is None:
        return ()
    what = rate[0]
    return (
        (f"x-ratelimit-limit-{what}", str(refused.limit)),
        (f"x-ratelimit-remaining-{what}", "0"),
        (f"x-ratelimit-reset-{what}", f"{refused.retry_after_s}s"),
    )


def _limit_text(refused: RefusedLimit) -> str:
    """`rpm:tenant:7` → "60 requests per minute for this account"."""
    parts = refused.name.split(":")
    rate = _RATES.get(parts[0])
    if rate is not None:
        return f"{refused.limit} {rate[1]} for {_LIMITS.get(parts[1], parts[1])}"
    what = "concurrent streams" if parts[-1] == "streams" else "concurrent requests"
    return f"{refused.limit} {what} for {_LIMITS.get(parts[0], parts[0])}"
