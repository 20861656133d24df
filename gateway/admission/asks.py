"""What one request needs before it may run: a hold, places under ceilings, its share of the rates."""

from collections.abc import Iterator, Sequence

from billing.admission.open_record import LeaseAsk, RateAsk
from relay.core.estimate import input_bound
from relay.core.request import RelayRequest
from relay.core.types import Caller, Ceilings, Channel, UpstreamKey

Candidate = tuple[Channel, UpstreamKey]
IMAGES = "images"


def caller_leases(caller: Caller, *, is_stream: bool) -> tuple[LeaseAsk, ...]:
    return (
        *_places("api_key", caller.api_key_id, caller.ceilings, is_stream=is_stream),
        *_places("tenant", caller.tenant_id, caller.tenant_ceilings, is_stream=is_stream),
    )


def candidate_leases(candidate: Candidate, *, is_stream: bool) -> tuple[LeaseAsk, ...]:
    channel, key = candidate
    return (
        *_places("channel", channel.id, channel.ceilings, is_stream=is_stream),
        *_places("upstream_key", key.id, key.ceilings, is_stream=is_stream),
    )


def has_ceilings(candidates: Sequence[Candidate]) -> bool:
    """Whether the first is limited: where it is not, nobody need ask the store for a place."""
    return bool(candidate_leases(candidates[0], is_stream=True))


def rates(request: RelayRequest) -> tuple[RateAsk, ...]:
    """Tokens: the prompt's bound; what the answer adds is corrected when the request settles."""
    caller = request.caller
    return (
        *_rates("api_key", caller.api_key_id, caller.ceilings, request),
        *_rates("tenant", caller.tenant_id, caller.tenant_ceilings, request),
    )


def _places(what: str, number: int, ceilings: Ceilings, *, is_stream: bool) -> Iterator[LeaseAsk]:
    if ceilings.requests:
        yield LeaseAsk(f"{what}:{number}", ceilings.requests)
    if ceilings.streams and is_stream:
        yield LeaseAsk(f"{what}:{number}:streams", ceilings.streams)


def _rates(what: str, number: int, ceilings: Ceilings, request: RelayRequest) -> Iterator[RateAsk]:
    if ceilings.requests_per_minute:
        yield RateAsk(f"rpm:{what}:{number}", ceilings.requests_per_minute, 1)
    if ceilings.tokens_per_minute:
        yield RateAsk(f"tpm:{what}:{number}", ceilings.tokens_per_minute, input_bound(request.prompt_bytes))
