"""Any other path under /v1: says what arrived, or mirrors it back byte for byte.

Must not import: Django, aiohttp.
"""

from gateway.simulator.answer import Answer, Ask
from gateway.simulator.json_values import JsonObject
from gateway.simulator.received import Received
from gateway.simulator.shapes.base import Payload
from gateway.simulator.shapes.openai_errors import NotStreamed


class PassThrough(NotStreamed):
    """Method, path, query, content type and body size as JSON; with `?mirror=1` the body itself."""

    def __init__(self, received: Received) -> None:
        self._received = received

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        return Ask(received.model, stream=False, text="", prompt_tokens=0, body=received.json)

    def whole(self, answer: Answer) -> Payload:  # noqa: ARG002 - the signature of `base.Shape`
        """The description, or the body that came."""
        came = self._received
        if came.query.get("mirror") == "1":
            return Payload(content=came.body, content_type=came.content_type or "application/octet-stream")
        query: JsonObject = {**came.query}
        return Payload(
            json={
                "method": came.method,
                "path": came.path,
                "raw_path": came.raw_path,
                "query": query,
                "content_type": came.content_type,
                "body_size": len(came.body),
            }
        )
