"""`POST /v1/messages` and `/v1/messages/count_tokens`, in Anthropic's dialect."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from gateway.relay_flow import relay
from relay.core.dialects.anthropic import ANTHROPIC, ANTHROPIC_COUNT_TOKENS

router = Router()


@router.post("/v1/messages")
async def messages(request: HttpRequest) -> HttpResponseBase:
    """Relays the raw body: unknown fields pass, nothing is parsed twice."""
    return await relay(request, ANTHROPIC)


@router.post("/v1/messages/count_tokens")
async def count_tokens(request: HttpRequest) -> HttpResponseBase:
    return await relay(request, ANTHROPIC_COUNT_TOKENS)
