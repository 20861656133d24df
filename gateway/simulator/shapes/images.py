"""POST /v1/images/generations, /edits and /variations, whole and as streamed partial images.

Must not import: Django, aiohttp.
"""

import base64
import struct
import zlib

from gateway.simulator.answer import Answer, Ask
from gateway.simulator.frames import Frame, Part
from gateway.simulator.json_values import JsonObject, as_count, as_text
from gateway.simulator.received import Received
from gateway.simulator.shapes.base import Payload
from gateway.simulator.shapes.openai_errors import OpenAIErrors
from gateway.simulator.text import count_tokens

_TOKENS_PER_IMAGE = 16


def png(shade: int = 0, size: int = 8) -> bytes:
    """A small valid PNG (RGB, `size` x `size` pixels); `shade` tells one image from another."""
    rows = b"".join(
        b"\0" + b"".join(bytes((x * 32 % 256, y * 32 % 256, shade % 256)) for x in range(size))
        for y in range(size)
    )
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


class Images(OpenAIErrors):
    """Images: `operation` is "generation" or "edit" and names the events of a stream."""

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        prompt = as_text(received.json.get("prompt"))
        return Ask(
            model=received.model,
            stream=received.json.get("stream") is True or received.json.get("stream") == "true",
            text=prompt,
            prompt_tokens=count_tokens(prompt),
            body=received.json,
            choices=min(as_count(received.json.get("n")) or 1, 10),
        )

    def frames(self, answer: Answer) -> list[Frame]:
        """Partial images (as many as asked for, 0 to 3), then the finished one with its usage."""
        partials = min(as_count(answer.ask.body.get("partial_images")) or 0, 3)
        name = f"image_{self._operation}.partial_image"
        frames = [
            Frame(Part.TEXT, {"type": name, **_picture(answer, shade), "partial_image_index": shade}, name)
            for shade in range(partials)
        ]
        done = f"image_{self._operation}.completed"
        return [
            *frames,
            Frame(Part.FINISH, {"type": done, **_picture(answer, 255), "usage": _usage(answer)}, done),
        ]

    def whole(self, answer: Answer) -> Payload:
        """The form without streaming."""
        if answer.ask.body.get("response_format") == "url":
            data = [{"url": f"https://images.example/{answer.id}/{i}.png"} for i in range(answer.choices)]
        else:
            data = [{"b64_json": _base64(i)} for i in range(answer.choices)]
        return Payload(
            json={
                "created": answer.created,
                "data": data,
                "output_format": "png",
                "size": as_text(answer.ask.body.get("size")) or "1024x1024",
                "usage": _usage(answer),
            }
        )


def _base64(shade: int) -> str:
    return base64.b64encode(png(shade)).decode()


def _picture(answer: Answer, shade: int) -> JsonObject:
    return {
        "b64_json": _base64(shade),
        "created_at": answer.created,
        "size": as_text(answer.ask.body.get("size")) or "1024x1024",
        "quality": "high",
        "background": "opaque",
        "output_format": "png",
    }


def _usage(answer: Answer) -> JsonObject:
    output = _TOKENS_PER_IMAGE * answer.choices
    return {
        "input_tokens": answer.ask.prompt_tokens,
        "output_tokens": output,
        "total_tokens": answer.ask.prompt_tokens + output,
        "input_tokens_details": {"text_tokens": answer.ask.prompt_tokens, "image_tokens": 0},
    }
