"""What of a request is charged for: the upstream's report, an estimate where it is missing, or nothing.

Decided by the end reason's row in `relay.core.end_reasons` and by how far the answer had come. Pure: the
counter of tokens is handed in.
"""

import msgspec

from relay.core.end_reasons import CLIENT_SIDE, ENDINGS, Charge
from relay.core.estimate import BYTES_PER_TOKEN, METHOD, Count, Evidence, filled
from relay.core.outcomes import AttemptOutcome, RequestOutcome
from relay.core.usage import TokenUsage

REPORTED, ESTIMATED, NONE = "reported", "estimated", "none"
QUICK_METHOD = "bytes"


class ChargedUsage(msgspec.Struct, frozen=True, gc=False):
    """usage: None = nothing is charged by usage. source: `reported`, `estimated` or `none`."""

    usage: TokenUsage | None = None
    source: str = NONE
    method: str = ""


_NOTHING = ChargedUsage()


def charged_usage(
    outcome: RequestOutcome,
    evidence: Evidence,
    count: Count,
    *,
    method: str = METHOD,
    charges_input_on_leave: bool = False,
) -> ChargedUsage:
    """charges_input_on_leave: of the channel that was asked last."""
    match ENDINGS[outcome.end_reason].charge:
        case Charge.USAGE:
            return _whole(outcome, evidence, count, method)
        case Charge.NOTHING:
            return _NOTHING
        case Charge.WHAT_ARRIVED | Charge.LAST_CHECKPOINT:
            return _partial(outcome, evidence, count, method, charges_input_on_leave)


def quick_count(text: str) -> int:
    """By size, where counting takes too long or fails: no tokenizer, never too little by much."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def attempt_charged(outcome: RequestOutcome) -> AttemptOutcome | None:
    """The attempt the tenant pays for: the one that answered, else the last."""
    for attempt in outcome.attempts:
        if attempt.committed:
            return attempt
    return outcome.attempts[-1] if outcome.attempts else None


def _whole(outcome: RequestOutcome, evidence: Evidence, count: Count, method: str) -> ChargedUsage:
    usage = _credible(outcome.usage, evidence)
    if usage is not None and usage.is_complete:
        return ChargedUsage(usage, REPORTED)
    return ChargedUsage(filled(usage, evidence, count), ESTIMATED, method)


def _partial(
    outcome: RequestOutcome, evidence: Evidence, count: Count, method: str, charges_input_on_leave: bool
) -> ChargedUsage:
    attempt = attempt_charged(outcome)
    if attempt is None:
        return _NOTHING
    is_clients = outcome.end_reason in CLIENT_SIDE
    if (
        not attempt.committed
        and not is_clients
        and ENDINGS[outcome.end_reason].charge is not Charge.LAST_CHECKPOINT
    ):
        return _NOTHING
    usage = _credible(attempt.usage, evidence)
    has_arrived = evidence.received_size > 0 or _has_output(usage)
    if not has_arrived:
        if not (charges_input_on_leave and is_clients and attempt.upstream_connected):
            return _NOTHING
        usage = msgspec.structs.replace(usage or TokenUsage(), output=0)
    if usage is not None and usage.is_complete and attempt.terminal_seen:
        return ChargedUsage(usage, REPORTED)
    return ChargedUsage(_at_least_what_arrived(usage, evidence, count), ESTIMATED, method)


def _at_least_what_arrived(usage: TokenUsage | None, evidence: Evidence, count: Count) -> TokenUsage:
    """Counts reported along the way may lag behind the text (Anthropic's first says 1 token): the larger."""
    if usage is None or usage.output is None:
        return filled(usage, evidence, count)
    counted = filled(msgspec.structs.replace(usage, output=None), evidence, count)
    return counted if (counted.output or 0) > usage.output else filled(usage, evidence, count)


def _has_output(usage: TokenUsage | None) -> bool:
    """What arrived without text: pictures, sound. Characters to be spoken count once sound has begun."""
    return usage is not None and bool(usage.images or usage.audio_ms or usage.characters)


def _credible(usage: TokenUsage | None, evidence: Evidence) -> TokenUsage | None:
    """Without an output beyond n × max_tokens: an upstream that reports so is wrong, and is not believed."""
    limit = evidence.output_limit
    if usage is None or usage.output is None or not limit:
        return usage
    visible = usage.output - (usage.reasoning or 0)
    return msgspec.structs.replace(usage, output=None, reasoning=None) if visible > limit else usage
