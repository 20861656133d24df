"""OpenAI's error object, shared by every OpenAI family.

Must not import: Django, aiohttp.
"""

from gateway.simulator.answer import Answer
from gateway.simulator.faults import Fault
from gateway.simulator.frames import Frame, Part
from gateway.simulator.json_values import JsonObject


class OpenAIErrors:
    """The error half of a shape: `{"error": {...}}`, in a stream as a `data:` chunk of the same form."""

    newline = b"\n"

    def error(self, fault: Fault) -> JsonObject:
        """The body of an error answer."""
        details: JsonObject = {
            "message": fault.message,
            "type": fault.type,
            "param": fault.param,
            "code": fault.code,
        }
        return {"error": details}

    def error_frame(self, fault: Fault) -> Frame:
        """An error inside a stream."""
        return Frame(Part.ERROR, self.error(fault))


class NotStreamed(OpenAIErrors):
    """An OpenAI family that has no event streams."""

    def frames(self, answer: Answer) -> list[Frame]:  # noqa: ARG002 - the signature of `base.Shape`
        """Nothing streams here."""
        return []
