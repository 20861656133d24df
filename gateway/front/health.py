"""`/healthz`: the process answers. `/readyz`: send it requests. Neither needs a key or a database."""

from django.http import HttpRequest, JsonResponse

from gateway import wiring
from gateway.front.drain import drain


async def healthz(_request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


async def readyz(_request: HttpRequest) -> JsonResponse:
    """503 only before the first configuration and while draining.

    An outage of a store is no reason: all processes would leave together.
    """
    if drain.is_draining:
        return JsonResponse({"status": "draining"}, status=503)
    if not wiring.is_ready():
        return JsonResponse({"status": "starting"}, status=503)
    return JsonResponse({"status": "ready"})
