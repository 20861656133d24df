"""`/v1/{anything}`: passed on as it is, path, query, body and content type, to a channel that serves it."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from gateway.relay_flow import relay
from relay.core.dialects.opaque import OPAQUE

router = Router()

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@router.api_operation(_METHODS, "/v1/{path:rest}", include_in_schema=False)
async def passthrough(request: HttpRequest, rest: str) -> HttpResponseBase:  # noqa: ARG001  the raw path counts
    return await relay(request, OPAQUE)
