"""Tool calls, good and bad. A request that ends in a tool's result is answered with text, so agents stop."""

from collections.abc import Callable
from dataclasses import replace

from gateway.simulator.answer import Answer, Finish, ToolCall, call_of, echo_of
from gateway.simulator.exchange import Exchange
from gateway.simulator.frames import Frame, Part
from gateway.simulator.json_values import JsonObject, as_object, objects
from gateway.simulator.registry import behaviour
from gateway.simulator.shapes.openai_chat import choices_of


def _calling(exchange: Exchange, count: int = 1, *, with_text: bool = False) -> Answer:
    answer = echo_of(exchange.ask)
    if exchange.ask.is_after_tool_result:
        return answer
    calls = tuple(call_of(exchange.ask, number) for number in range(count))
    pieces = answer.pieces if with_text else ()
    return replace(answer, pieces=pieces, tool_calls=calls, finish=Finish.TOOL_CALLS)


def _edit_calls(frames: list[Frame], edit: Callable[[JsonObject], JsonObject]) -> list[Frame]:
    """Change the tool calls in OpenAI deltas; other events stay as they are."""
    edited = []
    for frame in frames:
        if frame.part is not Part.TOOL or frame.payload is None or "choices" not in frame.payload:
            edited.append(frame)
            continue
        choices = []
        for choice in choices_of(frame.payload):
            delta = as_object(choice.get("delta"))
            calls = [edit(call) for call in objects(delta.get("tool_calls"))]
            choices.append({**choice, "delta": {**delta, "tool_calls": calls}})
        edited.append(replace(frame, payload={**frame.payload, "choices": choices}))
    return edited


@behaviour("tool-call", "Calls the client's first tool (or a weather tool), arguments in fragments.")
async def tool_call(exchange: Exchange) -> None:
    """The usual call."""
    await exchange.respond(_calling(exchange))


@behaviour("text-then-tool-call", "Says the text, then calls a tool.")
async def text_then_tool_call(exchange: Exchange) -> None:
    """Both in one answer."""
    await exchange.respond(_calling(exchange, with_text=True))


@behaviour("parallel-tool-calls", "Two calls in one answer.")
async def parallel_tool_calls(exchange: Exchange) -> None:
    """Told apart by index."""
    await exchange.respond(_calling(exchange, 2))


@behaviour("parallel-tool-calls-no-index", "Two calls without `index` (Mistral's stream).")
async def parallel_tool_calls_no_index(exchange: Exchange) -> None:
    """Told apart by id; each comes whole."""

    def edit(call: JsonObject) -> JsonObject:
        return {key: value for key, value in call.items() if key != "index"}

    answer = replace(_calling(exchange, 2), is_tool_call_whole=True)
    await exchange.respond(answer, edit_frames=lambda frames: _edit_calls(frames, edit))


@behaviour("parallel-tool-calls-same-index", "Two calls that both say index 0.")
async def parallel_tool_calls_same_index(exchange: Exchange) -> None:
    """Told apart by id; each comes whole."""
    answer = replace(_calling(exchange, 2), is_tool_call_whole=True)
    await exchange.respond(
        answer, edit_frames=lambda frames: _edit_calls(frames, lambda call: {**call, "index": 0})
    )


@behaviour("bad-tool-json", "A tool call whose arguments are cut JSON.")
async def bad_tool_json(exchange: Exchange) -> None:
    """Must never be taken for a whole call."""
    answer = _calling(exchange)
    await exchange.respond(replace(answer, tool_calls=tuple(_cut(call) for call in answer.tool_calls)))


def _cut(call: ToolCall) -> ToolCall:
    return replace(call, arguments=call.arguments[:-1] or "{")


@behaviour("tool-call-stop", "A good tool call, but the finish reason says `stop`.")
async def tool_call_stop(exchange: Exchange) -> None:
    """Should read tool_calls."""
    await exchange.respond(replace(_calling(exchange), finish=Finish.STOP))


@behaviour("tool-calls-empty", "OpenAI deltas carry `tool_calls: []` beside the text (vLLM).")
async def tool_calls_empty(exchange: Exchange) -> None:
    """It is text all the same."""

    def edit(frames: list[Frame]) -> list[Frame]:
        return [_with_no_calls(frame) if frame.part is Part.TEXT else frame for frame in frames]

    await exchange.respond(edit_frames=edit)


def _with_no_calls(frame: Frame) -> Frame:
    if frame.payload is None or "choices" not in frame.payload:
        return frame
    choices = [
        {**choice, "delta": {**as_object(choice.get("delta")), "tool_calls": []}}
        for choice in choices_of(frame.payload)
    ]
    return replace(frame, payload={**frame.payload, "choices": choices})
