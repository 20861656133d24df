"""What an answer may hold besides plain text."""

from collections.abc import Callable
from dataclasses import replace

from gateway.simulator.answer import Finish, echo_of
from gateway.simulator.exchange import Exchange
from gateway.simulator.frames import Frame, Part
from gateway.simulator.json_values import JsonObject, as_object
from gateway.simulator.registry import behaviour
from gateway.simulator.shapes.openai_chat import choices_of
from gateway.simulator.text import split_pieces

_THOUGHT = "The user wants to hear their own words again."
_FILTERS: JsonObject = {"hate": {"filtered": False, "severity": "safe"}}


def _edit_choices(frames: list[Frame], edit: Callable[[JsonObject], JsonObject]) -> list[Frame]:
    """Change the choices of OpenAI chunks; other events stay as they are."""
    edited = []
    for frame in frames:
        if frame.payload is None or "choices" not in frame.payload:
            edited.append(frame)
            continue
        choices = [edit(choice) for choice in choices_of(frame.payload)]
        edited.append(replace(frame, payload={**frame.payload, "choices": choices}))
    return edited


@behaviour("reasoning", "Thinks aloud first (reasoning_content, thinking block, thought part), then echoes.")
async def reasoning(exchange: Exchange) -> None:
    """Reasoning tokens are counted apart."""
    await exchange.respond(replace(echo_of(exchange.ask), reasoning=split_pieces(_THOUGHT)))


@behaviour("n-choices", "Several choices, interleaved: as many as `n`, two at least.")
async def n_choices(exchange: Exchange) -> None:
    """Finished only when each choice is."""
    await exchange.respond(replace(echo_of(exchange.ask), choices=max(2, exchange.ask.choices)))


@behaviour("logprobs", "Log probabilities on every piece, asked for or not.")
async def logprobs(exchange: Exchange) -> None:
    """A field that must survive the relay."""
    await exchange.respond(replace(echo_of(exchange.ask), logprobs=True))


@behaviour("refusal", "Refuses in the `refusal` field.")
async def refusal(exchange: Exchange) -> None:
    """Text, but no content."""
    pieces = split_pieces("I cannot echo that.")
    await exchange.respond(replace(echo_of(exchange.ask), pieces=pieces, is_refusal=True))


@behaviour("length", "Ends with finish reason `length` (max_tokens, response.incomplete).")
async def length(exchange: Exchange) -> None:
    """Cut by the token limit."""
    await exchange.respond(replace(echo_of(exchange.ask), finish=Finish.LENGTH))


@behaviour("content-filter", "Ends with finish reason `content_filter` (refusal, SAFETY).")
async def content_filter(exchange: Exchange) -> None:
    """Cut by the filter."""
    await exchange.respond(replace(echo_of(exchange.ask), finish=Finish.CONTENT_FILTER))


@behaviour("finish-empty", 'OpenAI chunks say `finish_reason: ""` until the last (Ollama).')
async def finish_empty(exchange: Exchange) -> None:
    """Means null."""

    def edit(choice: JsonObject) -> JsonObject:
        return {**choice, "finish_reason": choice.get("finish_reason") or ""}

    await exchange.respond(edit_frames=lambda frames: _edit_choices(frames, edit))


@behaviour("bare-deltas", "OpenAI deltas without `content` and `refusal` where they are empty (llama.cpp).")
async def bare_deltas(exchange: Exchange) -> None:
    """Absent, null and empty mean the same."""

    def edit(choice: JsonObject) -> JsonObject:
        delta = {key: value for key, value in as_object(choice.get("delta")).items() if value}
        return {"index": choice.get("index"), "delta": delta, "finish_reason": choice.get("finish_reason")}

    await exchange.respond(edit_frames=lambda frames: _edit_choices(frames, edit))


@behaviour("azure-preamble", "Azure's first chunk: filter results, no choices, empty id and model.")
async def azure_preamble(exchange: Exchange) -> None:
    """Neither an error nor the first event."""
    first: JsonObject = {
        "id": "",
        "object": "",
        "created": 0,
        "model": "",
        "choices": [],
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": _FILTERS}],
    }
    await exchange.respond(edit_frames=lambda frames: [Frame(Part.PREAMBLE, first), *frames])
