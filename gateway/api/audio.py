"""`POST /v1/audio/speech` (sound comes back), `/transcriptions` and `/translations` (multipart forms)."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from gateway.relay_flow import relay
from relay.core.dialects.openai_json import SPEECH, TRANSCRIPTIONS

router = Router()


@router.post("/v1/audio/speech")
async def speech(request: HttpRequest) -> HttpResponseBase:
    return await relay(request, SPEECH)


@router.post("/v1/audio/transcriptions")
@router.post("/v1/audio/translations")
async def transcriptions(request: HttpRequest) -> HttpResponseBase:
    return await relay(request, TRANSCRIPTIONS)
