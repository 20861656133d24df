"""`/v1/{anything}`: passed on as it is, path, query, body and content type, to a channel that serves it."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from gateway.relay_flow import relay
from relay.core.dialects.opaque import OPAQUE
from relay.core.dialects.openai_responses.actions import RESPONSES_ACTIONS
from relay.core.path_families import PathFamily, classify

router = Router()

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@router.api_operation(_METHODS, "/v1/{path:rest}", include_in_schema=False)
async def passthrough(request: HttpRequest, rest: str) -> HttpResponseBase:  # noqa: ARG001  the raw path counts
    """What an upstream may take for a call of the Responses API (`/v1/Responses/`) is held to its rules."""
    is_response = request.method == "POST" and classify(request.path_info) is PathFamily.RESPONSES
    return await relay(request, RESPONSES_ACTIONS if is_response else OPAQUE)
