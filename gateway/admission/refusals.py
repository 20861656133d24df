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


def _limit_text(refused: RefusedLimit) -> str:
    """`rpm:tenant:7` → "60 requests per minute for this account"."""
    parts = refused.name.split(":")
    rate = {"rpm": "requests per minute", "tpm": "tokens per minute"}.get(parts[0])
    if rate is not None:
        return f"{refused.limit} {rate} for {_LIMITS.get(parts[1], parts[1])}"
    what = "concurrent streams" if parts[-1] == "streams" else "concurrent requests"
    return f"{refused.limit} {what} for {_LIMITS.get(parts[0], parts[0])}"
