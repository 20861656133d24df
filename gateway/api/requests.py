"""`GET /v1/requests/{id}`: a tenant's own request as it was recorded, or that it still runs."""

import uuid

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Router

from billing.admission import RecordState, StoreUnavailable, admission_port
from billing.selectors.requests import RequestView, RunningView, open_view, request_view
from gateway import wiring
from gateway.relay_flow import caller_of
from relay.core.errors import Refusal

router = Router()


@router.get("/v1/requests/{request_id}")
async def request_detail(request: HttpRequest, request_id: str) -> HttpResponse:
    """Another tenant's request is as unknown as one that never was."""
    caller = caller_of(request)
    parts = wiring.current()
    running = parts.engine.running.get(request_id)
    if running is not None and running.request.caller.tenant_id == caller.tenant_id:
        answer: object = {"id": request_id, "object": "relay.request", "state": "running"}
        return HttpResponse(msgspec.json.encode(answer), content_type="application/json")
    view = await _recorded(caller.tenant_id, request_id)
    if view is None:
        raise Refusal(404, "There is no such request.", code="request_not_found", param="id")
    return HttpResponse(msgspec.json.encode(view), content_type="application/json")


async def _recorded(tenant_id: int, request_id: str) -> RequestView | RunningView | None:
    """In the order in which an outcome travels: each place has it before the one behind gives it up."""
    try:
        canonical = str(uuid.UUID(request_id))
    except ValueError:
        return None
    state = wiring.current().courier.undelivered(canonical) or await _stored(canonical)
    read = wiring.current().threads.read
    view = await read(open_view, tenant_id, state) if state is not None else None
    return view or await read(request_view, tenant_id, canonical)


async def _stored(request_id: str) -> RecordState | None:
    try:
        return await admission_port().state(request_id)
    except StoreUnavailable:
        return None  # the rows are still there to be read
