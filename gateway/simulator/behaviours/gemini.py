"""What only Gemini's shape has, or what those who imitate it get wrong. Other shapes just echo."""

import asyncio

from gateway.simulator.answer import echo_of
from gateway.simulator.exchange import Exchange
from gateway.simulator.faults import fault_for
from gateway.simulator.frames import Frame, Part
from gateway.simulator.json_values import JsonObject, objects
from gateway.simulator.registry import behaviour
from gateway.simulator.shapes.gemini import Gemini

_CODE: JsonObject = {"executableCode": {"language": "PYTHON", "code": "print(2)"}}
_RAN: JsonObject = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n"}}


@behaviour("api-key-invalid", "400 in which Google says that it does not know the operator's key.")
async def api_key_invalid(exchange: Exchange) -> None:
    """Nothing that a tenant did, or should hear of."""
    message = "API key not valid. Please pass a valid API key."
    await exchange.send_error(fault_for(400, message, code="API_KEY_INVALID"))


@behaviour(
    "code-round-{s}",
    "Runs code: finishes, is silent for so many seconds, and goes on.",
    example="code-round-6",
)
async def code_round(exchange: Exchange, wait_s: float) -> None:
    """A finish that is no end. Whole: an ordinary answer."""
    frames = exchange.shape.frames(echo_of(exchange.ask)) if exchange.ask.stream else []
    if not frames or not isinstance(exchange.shape, Gemini):
        await exchange.respond()
        return
    await exchange.send_frames([_with_part(frames[0], _CODE), _with_part(frames[0], _RAN), frames[-1]])
    await asyncio.sleep(wait_s)
    await exchange.send_frames(frames)


def _with_part(frame: Frame, part: JsonObject) -> Frame:
    payload = frame.payload or {}
    candidates = [
        {**each, "content": {"parts": [part], "role": "model"}} for each in objects(payload.get("candidates"))
    ]
    return Frame(Part.TOOL, {**payload, "candidates": candidates})
