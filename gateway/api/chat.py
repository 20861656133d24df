"""`POST /v1/chat/completions`, in OpenAI's dialect."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from gateway.relay_flow import relay
from relay.core.dialects.openai_chat import OPENAI_CHAT

router = Router()

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["model", "messages"],
                    "properties": {
                        "model": {"type": "string"},
                        "messages": {"type": "array", "items": {"type": "object"}},
                        "stream": {"type": "boolean", "default": False},
                    },
                    "additionalProperties": True,
                }
            }
        },
    }
}


@router.post("/v1/chat/completions", openapi_extra=_BODY)
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    """Relays the raw body: unknown fields pass, nothing is parsed twice."""
    return await relay(request, OPENAI_CHAT)
