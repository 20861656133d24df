"""`POST /v1/images/generations`, `/edits` and `/variations`: JSON or a multipart form, streamed if asked."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from gateway.relay_flow import relay
from relay.core.dialects.openai_json import IMAGES

router = Router()


@router.post("/v1/images/generations")
@router.post("/v1/images/edits")
@router.post("/v1/images/variations")
async def images(request: HttpRequest) -> HttpResponseBase:
    return await relay(request, IMAGES)
