"""Errors as clients of the Responses API expect them, as a body and in-band.

The body is that of all OpenAI endpoints. In a stream it is an event of type `error`. The documentation puts
code, message and param at its top level, the API itself into a member `error`; SDKs read the one or the
other (the official Python SDK raises for the second only), so both are there. Sources:
https://platform.openai.com/docs/api-reference/responses-streaming/error; openai/openai-python
`_streaming.py`; vercel/ai `openai-responses-api.ts`.
"""

import msgspec

from relay.core.dialects.openai_chat.errors import error_body as error_body  # the same on every endpoint
from relay.core.errors import Refusal
from relay.core.sse import encode_event

_read_error = msgspec.json.Decoder(dict[str, dict[str, str | None]]).decode


def error_event(refusal: Refusal, request_id: str) -> bytes:
    """sequence_number is 0: SDKs demand a number, but nobody knows here how many events went before."""
    error = _read_error(error_body(refusal, request_id))["error"]
    event: dict[str, object] = {
        "type": "error",
        "sequence_number": 0,
        "code": error["code"] or error["type"],
        "message": error["message"],
        "param": error["param"],
        "error": error,
    }
    return encode_event(msgspec.json.encode(event), "error")
