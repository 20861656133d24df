"""POST /v1/completions: OpenAI's older text completions.

Must not import: Django, aiohttp.
"""

from gateway.simulator.answer import Answer, Ask
from gateway.simulator.frames import DONE, Frame, Part
from gateway.simulator.json_values import JsonObject, as_count, as_list, as_object, as_text
from gateway.simulator.received import Received
from gateway.simulator.shapes.base import Payload, joined
from gateway.simulator.shapes.openai_chat import usage
from gateway.simulator.shapes.openai_errors import OpenAIErrors
from gateway.simulator.text import count_tokens


class OpenAICompletions(OpenAIErrors):
    """Text completions: the prompt is what the user said."""

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        body = received.json
        prompt = body.get("prompt")
        text = as_text(prompt) or joined(as_text(item) for item in as_list(prompt))
        return Ask(
            model=received.model,
            stream=body.get("stream") is True,
            text=text,
            prompt_tokens=count_tokens(text),
            body=body,
            include_usage=as_object(body.get("stream_options")).get("include_usage") is True,
            choices=min(as_count(body.get("n")) or 1, 128),
            max_tokens=as_count(body.get("max_tokens")),
        )

    def frames(self, answer: Answer) -> list[Frame]:
        """The streamed form, terminal included."""
        numbers = range(answer.choices)
        frames = [_chunk(answer, Part.TEXT, i, piece) for piece in answer.pieces for i in numbers]
        frames += [_chunk(answer, Part.FINISH, i, "", str(answer.finish)) for i in numbers]
        if answer.ask.include_usage:
            frames.append(Frame(Part.USAGE, {**_envelope(answer), "choices": [], "usage": usage(answer)}))
        return [*frames, DONE]

    def whole(self, answer: Answer) -> Payload:
        """The form without streaming."""
        choices = [_choice(i, answer.text, str(answer.finish)) for i in range(answer.choices)]
        return Payload(json={**_envelope(answer), "choices": choices, "usage": usage(answer)})


def _envelope(answer: Answer) -> JsonObject:
    return {
        "id": f"cmpl-{answer.id}",
        "object": "text_completion",
        "created": answer.created,
        "model": answer.ask.model,
    }


def _choice(index: int, text: str, finish: str | None) -> JsonObject:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": finish}


def _chunk(answer: Answer, part: Part, index: int, text: str, finish: str | None = None) -> Frame:
    payload = {**_envelope(answer), "choices": [_choice(index, text, finish)]}
    return Frame(part, {**payload, "usage": None} if answer.ask.include_usage else payload)
