"""Places under the ceilings of channels and upstream keys, for attempts after the first."""

from collections.abc import Sequence

from billing.admission import AdmissionPort, StoreUnavailable
from billing.admission.open_record import RefusedLimit
from gateway.admission.asks import Candidate, candidate_leases
from gateway.admission.open_requests import OpenRequests

ADMITTED = 0
"""The attempt whose places were taken at admission."""


class AttemptLeases:
    """`relay.upstream.ports.Leases`. A store that is away does not end a request that runs."""

    def __init__(self, port: AdmissionPort, open_requests: OpenRequests) -> None:
        self._port = port
        self._open = open_requests

    async def take(self, request_id: str, number: int, candidates: Sequence[Candidate]) -> int | None:
        request = self._open.get(request_id)
        if request is None:
            return 0  # never admitted: a probe
        asked = [candidate_leases(candidate, is_stream=request.is_stream) for candidate in candidates]
        try:
            taken = await self._port.lease(request_id, _holder(number), asked)
        except StoreUnavailable:
            return 0
        if isinstance(taken, RefusedLimit):
            return None
        request.leases[_holder(number)] = tuple(lease.name for lease in asked[taken])
        return taken

    def give_back(self, request_id: str, number: int) -> None:
        request = self._open.get(request_id)
        if request is not None and request.leases.pop(_holder(number), ()):
            self._port.release_leases(request_id, _holder(number))


def _holder(number: int) -> str:
    """The empty one is the store's word for what the admission's candidate took."""
    return "" if number == ADMITTED else str(number)
