"""What one request needs before it may run: a hold, places under ceilings, its share of the rates."""

from collections.abc import Sequence

from billing.admission.open_record import LeaseAsk, RateAsk
from relay.core.estimate import input_bound
from relay.core.request import RelayRequest
from relay.core.types import NO_CEILINGS, Caller, Ceilings, Channel, UpstreamKey

Candidate = tuple[Channel, UpstreamKey]


def caller_leases(caller: Caller, *, is_stream: bool) -> tuple[LeaseAsk, ...]:
    of_key = _places("api_key", caller.api_key_id, caller.ceilings, is_stream=is_stream)
    return of_key + _places("tenant", caller.tenant_id, caller.tenant_ceilings, is_stream=is_stream)


def candidate_leases(candidate: Candidate, *, is_stream: bool) -> tuple[LeaseAsk, ...]:
    channel, key = candidate
    of_channel = _places("channel", channel.id, channel.ceilings, is_stream=is_stream)
    return of_channel + _places("upstream_key", key.id, key.ceilings, is_stream=is_stream)


def has_ceilings(candidates: Sequence[Candidate]) -> bool:
    """Whether the first is limited: where it is not, nobody need ask the store for a place."""
    return bool(candidate_leases(candidates[0], is_stream=True))


def rates(request: RelayRequest) -> tuple[RateAsk, ...]:
    """Tokens: the prompt's bound; what the answer adds is corrected when the request settles."""
    caller = request.caller
    of_key = _rates("api_key", caller.api_key_id, caller.ceilings, request)
    return of_key + _rates("tenant", caller.tenant_id, caller.tenant_ceilings, request)


def _places(what: str, number: int, ceilings: Ceilings, *, is_stream: bool) -> tuple[LeaseAsk, ...]:
    if ceilings is NO_CEILINGS:
        return ()
    places = []
    if ceilings.requests:
        places.append(LeaseAsk(f"{what}:{number}", ceilings.requests))
    if ceilings.streams and is_stream:
        places.append(LeaseAsk(f"{what}:{number}:streams", ceilings.streams))
    return tuple(places)


def _rates(what: str, number: int, ceilings: Ceilings, request: RelayRequest) -> tuple[RateAsk, ...]:
    if ceilings is NO_CEILINGS:
        return ()
    taken = []
    if ceilings.requests_per_minute:
        taken.append(RateAsk(f"rpm:{what}:{number}", ceilings.requests_per_minute, 1))
    if ceilings.tokens_per_minute:
        bound = input_bound(request.prompt_bytes)
        taken.append(RateAsk(f"tpm:{what}:{number}", ceilings.tokens_per_minute, bound))
    return tuple(taken)
