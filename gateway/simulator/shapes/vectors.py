"""POST /v1/embeddings, /v1/moderations and /v1/rerank: answers that are numbers and never stream.

Must not import: Django, aiohttp.
"""

import base64
import hashlib
import struct

from gateway.simulator.answer import Answer, Ask
from gateway.simulator.json_values import JsonObject, as_count, as_list, as_text, content_text
from gateway.simulator.received import Received
from gateway.simulator.shapes.base import Payload, joined
from gateway.simulator.shapes.openai_errors import NotStreamed
from gateway.simulator.text import count_tokens

_DIMENSIONS = 8


def vector_of(text: str, dimensions: int = _DIMENSIONS) -> list[float]:
    """A fixed vector for a text: same text, same numbers, each in [-1, 1)."""
    digest = hashlib.shake_128(text.encode("utf-8", "replace")).digest(dimensions)
    return [byte / 128 - 1 for byte in digest]


class _OverInputs(NotStreamed):
    """The half they share: `input` is a text or a list of texts."""

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        texts = _inputs(received.json)
        query = as_text(received.json.get("query"))
        return Ask(
            model=received.model,
            stream=False,
            text=joined(texts),
            prompt_tokens=count_tokens(joined([query, *texts])),
            body=received.json,
        )


class Embeddings(_OverInputs):
    """One vector an input, as floats or as base64 of little-endian floats."""

    def whole(self, answer: Answer) -> Payload:
        """The form without streaming."""
        body = answer.ask.body
        dimensions = min(as_count(body.get("dimensions")) or _DIMENSIONS, 4096)
        is_base64 = body.get("encoding_format") == "base64"
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": _embedding(text, dimensions, is_base64=is_base64),
            }
            for index, text in enumerate(_inputs(body))
        ]
        tokens = answer.ask.prompt_tokens
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return Payload(json={"object": "list", "data": data, "model": answer.ask.model, "usage": usage})


class Moderations(_OverInputs):
    """A text is flagged if it contains the word "violence"."""

    def whole(self, answer: Answer) -> Payload:
        """The form without streaming."""
        results = []
        for text in _inputs(answer.ask.body):
            is_flagged = "violence" in text.lower()
            results.append(
                {
                    "flagged": is_flagged,
                    "categories": {"violence": is_flagged, "hate": False},
                    "category_scores": {"violence": 0.99 if is_flagged else 0.01, "hate": 0.01},
                }
            )
        return Payload(json={"id": f"modr-{answer.id}", "model": answer.ask.model, "results": results})


class Rerank(_OverInputs):
    """Documents by how many of the query's words they hold."""

    def whole(self, answer: Answer) -> Payload:
        """The form without streaming."""
        body = answer.ask.body
        wanted = set(as_text(body.get("query")).lower().split())
        scores = [
            len(wanted & set(text.lower().split())) / max(1, len(wanted))
            for text in _texts(body.get("documents"))
        ]
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        top = order[: as_count(body.get("top_n")) or len(order)]
        results = [{"index": index, "relevance_score": scores[index]} for index in top]
        usage = {"total_tokens": answer.ask.prompt_tokens}
        return Payload(json={"model": answer.ask.model, "results": results, "usage": usage})


def _inputs(body: JsonObject) -> list[str]:
    return _texts(body.get("input", body.get("documents")))


def _texts(given: object) -> list[str]:
    if isinstance(given, str):
        return [given]
    return [as_text(item) or content_text([item]) for item in as_list(given)]


def _embedding(text: str, dimensions: int, *, is_base64: bool) -> list[float] | str:
    vector = vector_of(text, dimensions)
    if not is_base64:
        return vector
    return base64.b64encode(struct.pack(f"<{dimensions}f", *vector)).decode()
