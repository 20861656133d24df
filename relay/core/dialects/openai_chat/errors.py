"""Errors as OpenAI's clients expect them: `{"error": {message, type, param, code}}` and our request id.

Source: https://platform.openai.com/docs/guides/error-codes; the SDKs read `error` from the body and,
in a stream, from any event's top level. Must not import the rest of the dialect.
"""

import msgspec

from relay.core.errors import Refusal
from relay.core.sse import encode_event


def error_body(refusal: Refusal, request_id: str) -> bytes:
    error: dict[str, str | None] = {
        "message": refusal.message,
        "type": refusal.kind,
        "param": refusal.param,
        "code": refusal.code,
        "request_id": request_id,
    }
    try:
        return msgspec.json.encode({"error": error})
    except UnicodeEncodeError:  # an upstream's text with half a surrogate pair in it
        clean = {name: value and value.encode("utf-8", "replace").decode() for name, value in error.items()}
        return msgspec.json.encode({"error": clean})


def error_event(refusal: Refusal, request_id: str) -> bytes:
    return encode_event(error_body(refusal, request_id))
