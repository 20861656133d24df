"""`POST /v1/responses` and what is done with a response's fields, in OpenAI's Responses dialect."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from gateway.relay_flow import relay
from relay.core.dialects.openai_responses import OPENAI_RESPONSES
from relay.core.dialects.openai_responses.actions import RESPONSES_ACTIONS, RESPONSES_INPUT_TOKENS

router = Router()


@router.post("/v1/responses")
async def responses(request: HttpRequest) -> HttpResponseBase:
    """Relays the raw body: unknown fields pass, nothing is parsed twice."""
    return await relay(request, OPENAI_RESPONSES)


@router.post("/v1/responses/compact")
async def compact(request: HttpRequest) -> HttpResponseBase:
    return await relay(request, RESPONSES_ACTIONS)


@router.post("/v1/responses/input_tokens")
async def input_tokens(request: HttpRequest) -> HttpResponseBase:
    return await relay(request, RESPONSES_INPUT_TOKENS)
