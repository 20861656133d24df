"""POST /v1/audio/speech (binary) and /v1/audio/transcriptions, /translations (multipart).

Must not import: Django, aiohttp.
"""

from gateway.simulator.answer import Answer, Ask
from gateway.simulator.frames import Frame, Part
from gateway.simulator.json_values import as_text
from gateway.simulator.received import Received
from gateway.simulator.shapes.base import Payload
from gateway.simulator.shapes.openai_errors import NotStreamed, OpenAIErrors
from gateway.simulator.text import count_tokens

_CONTENT_TYPES = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
SPEECH = bytes(range(256)) * 16


class Speech(NotStreamed):
    """Speech: no sound, but every byte value, so that a relay that decodes text is found out."""

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        text = as_text(received.json.get("input"))
        return Ask(
            received.model, stream=False, text=text, prompt_tokens=count_tokens(text), body=received.json
        )

    def whole(self, answer: Answer) -> Payload:
        """4,096 bytes in four writes, with the content type of the format asked for."""
        wanted = as_text(answer.ask.body.get("response_format")) or "mp3"
        content_type = _CONTENT_TYPES.get(wanted, "application/octet-stream")
        return Payload(content=SPEECH, content_type=content_type, slices=4)


class Transcriptions(OpenAIErrors):
    """Transcriptions: the "sound" is a fixed sentence that names the file's size."""

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        sizes = [len(part.body) for part in received.parts if part.filename is not None]
        text = f"A recording of {sum(sizes)} bytes in {len(sizes)} file(s)."
        return Ask(
            model=received.model,
            stream=received.json.get("stream") == "true",
            text=text,
            prompt_tokens=count_tokens(as_text(received.json.get("prompt"))),
            body=received.json,
        )

    def frames(self, answer: Answer) -> list[Frame]:
        """One delta a word, then the whole text."""
        delta, done = "transcript.text.delta", "transcript.text.done"
        return [
            *(Frame(Part.TEXT, {"type": delta, "delta": piece}, delta) for piece in answer.pieces),
            Frame(Part.FINISH, {"type": done, "text": answer.text}, done),
        ]

    def whole(self, answer: Answer) -> Payload:
        """JSON, or plain text if that was asked for."""
        if answer.ask.body.get("response_format") == "text":
            return Payload(content=answer.text.encode() + b"\n", content_type="text/plain; charset=utf-8")
        return Payload(json={"text": answer.text})
