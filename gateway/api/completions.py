"""`POST /v1/completions`, OpenAI's older text completions."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from gateway.relay_flow import relay
from relay.core.dialects.openai_completions import OPENAI_COMPLETIONS

router = Router()


@router.post("/v1/completions")
async def completions(request: HttpRequest) -> HttpResponseBase:
    return await relay(request, OPENAI_COMPLETIONS)
