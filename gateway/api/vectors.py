"""`POST /v1/embeddings`, `/v1/moderations` and `/v1/rerank`: one JSON answer each, never streamed."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from gateway.relay_flow import relay
from relay.core.dialects.openai_json import VECTORS

router = Router()


@router.post("/v1/embeddings")
@router.post("/v1/moderations")
@router.post("/v1/rerank")
async def vectors(request: HttpRequest) -> HttpResponseBase:
    return await relay(request, VECTORS)
