"""How usage is reported, or not."""

from dataclasses import replace

from gateway.simulator.answer import echo_of
from gateway.simulator.exchange import Exchange
from gateway.simulator.frames import Frame, Part
from gateway.simulator.json_values import JsonObject
from gateway.simulator.registry import behaviour
from gateway.simulator.shapes.openai_chat import completion_id
from gateway.simulator.shapes.openai_chat import usage as openai_usage

_USAGE_KEYS = {"usage", "usageMetadata"}


def _without_usage(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_usage(item) for key, item in value.items() if key not in _USAGE_KEYS}
    if isinstance(value, list):
        return [_without_usage(item) for item in value]
    return value


def _strip(payload: JsonObject) -> JsonObject:
    stripped = _without_usage(payload)
    return stripped if isinstance(stripped, dict) else payload


def _frames_without_usage(frames: list[Frame]) -> list[Frame]:
    kept = [frame for frame in frames if frame.part is not Part.USAGE]
    return [replace(f, payload=_strip(f.payload)) if f.payload is not None else f for f in kept]


@behaviour("usage-missing", "No usage anywhere, asked for or not.")
async def usage_missing(exchange: Exchange) -> None:
    """To be estimated."""
    await exchange.respond(edit_frames=_frames_without_usage, edit_whole=_strip)


@behaviour(
    "usage-later-{n}",
    "As `usage-missing`; `GET /v1/generation?id=…` tells the usage, after 404 the first n times.",
    example="usage-later-1",
)
async def usage_later(exchange: Exchange, in_vain: float) -> None:
    """As OpenRouter, which counts after it has answered. Chat completions only."""
    answer = echo_of(exchange.ask)
    exchange.memory.unknown_for[completion_id(answer)] = int(in_vain)
    await exchange.respond(answer, edit_frames=_frames_without_usage, edit_whole=_strip)


@behaviour("usage-unasked", "The usage chunk comes although `include_usage` was not set.")
async def usage_unasked(exchange: Exchange) -> None:
    """Clients that did not ask stumble over the empty choices."""
    answer = echo_of(exchange.ask)
    await exchange.respond(replace(answer, ask=replace(exchange.ask, include_usage=True)))


@behaviour("usage-each-chunk", "Every OpenAI chunk carries the usage so far (cumulative).")
async def usage_each_chunk(exchange: Exchange) -> None:
    """Never to be added up: the last one is the sum."""
    answer = echo_of(exchange.ask)
    total = openai_usage(answer)
    prompt = answer.ask.prompt_tokens

    def edit(frames: list[Frame]) -> list[Frame]:
        edited, said = [], 0
        for frame in frames:
            said += frame.part is Part.TEXT
            if frame.payload is None or "choices" not in frame.payload:
                edited.append(frame)
                continue
            so_far = {**total, "completion_tokens": said, "total_tokens": prompt + said}
            edited.append(replace(frame, payload={**frame.payload, "usage": so_far}))
        return edited

    await exchange.respond(answer, edit_frames=edit)


@behaviour("usage-with-finish", "Usage stands on the chunk with the finish reason, not on one of its own.")
async def usage_with_finish(exchange: Exchange) -> None:
    """As several compatible upstreams send it, asked for or not."""
    answer = echo_of(exchange.ask)
    total = openai_usage(answer)

    def edit(frames: list[Frame]) -> list[Frame]:
        kept = [frame for frame in frames if frame.part is not Part.USAGE]
        return [
            replace(f, payload={**f.payload, "usage": total})
            if f.part is Part.FINISH and f.payload is not None and "choices" in f.payload
            else f
            for f in kept
        ]

    await exchange.respond(answer, edit_frames=edit)


@behaviour("choices-null-usage", "The usage chunk has `choices: null` (sent only if usage was asked for).")
async def choices_null_usage(exchange: Exchange) -> None:
    """Crashes clients that iterate over the choices."""

    def edit(frames: list[Frame]) -> list[Frame]:
        return [
            replace(f, payload={**f.payload, "choices": None})
            if f.part is Part.USAGE and f.payload is not None
            else f
            for f in frames
        ]

    await exchange.respond(edit_frames=edit)


@behaviour("usage-cached", "All but one of the prompt's tokens came from the cache.")
async def usage_cached(exchange: Exchange) -> None:
    """The dialects count the cached part differently."""
    answer = echo_of(exchange.ask)
    await exchange.respond(replace(answer, cached_tokens=max(0, exchange.ask.prompt_tokens - 1)))
