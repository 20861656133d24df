"""Which shape answers which path, and the endpoints that no behaviour touches: models and what is stored.

Paths of OpenAI, Azure (`/openai/deployments/NAME/…`, `/openai/v1/…`), Anthropic, Gemini and OpenRouter
(`/api/v1/…`) are known; any other path below `/v1` is passed through. Must not import: Django, aiohttp.
"""

import re

from gateway.simulator.exchange import Memory
from gateway.simulator.faults import fault_for
from gateway.simulator.json_values import JsonObject
from gateway.simulator.received import Received
from gateway.simulator.registry import all_behaviours
from gateway.simulator.shapes.anthropic import AnthropicCountTokens, AnthropicMessages
from gateway.simulator.shapes.audio import Speech, Transcriptions
from gateway.simulator.shapes.base import Shape
from gateway.simulator.shapes.gemini import Gemini
from gateway.simulator.shapes.images import Images
from gateway.simulator.shapes.openai_chat import OpenAIChat
from gateway.simulator.shapes.openai_completions import OpenAICompletions
from gateway.simulator.shapes.openai_errors import OpenAIErrors
from gateway.simulator.shapes.openai_responses import OpenAIInputTokens, OpenAIResponses
from gateway.simulator.shapes.passthrough import PassThrough
from gateway.simulator.shapes.vectors import Embeddings, Moderations, Rerank

_PREFIX = re.compile(
    r"/openai/deployments/(?P<deployment>[^/]+)(?=/)|(?:/openai|/api)/v1(?=/)|/v1(?:beta)?(?=/)"
)
_GEMINI = re.compile(r"/(?:models|tunedModels)/(?P<model>.+):(?P<verb>[A-Za-z]+)")
_STORED = re.compile(r"/responses/(?P<id>[^/]+)(?P<cancel>/cancel)?")
_CREATED = 1_700_000_000

_SHAPES: dict[str, Shape] = {
    "/chat/completions": OpenAIChat(),
    "/completions": OpenAICompletions(),
    "/responses": OpenAIResponses(),
    "/responses/input_tokens": OpenAIInputTokens(),
    "/messages": AnthropicMessages(),
    "/messages/count_tokens": AnthropicCountTokens(),
    "/embeddings": Embeddings(),
    "/moderations": Moderations(),
    "/rerank": Rerank(),
    "/images/generations": Images("generation"),
    "/images/edits": Images("edit"),
    "/images/variations": Images("generation"),
    "/audio/speech": Speech(),
    "/audio/transcriptions": Transcriptions(),
    "/audio/translations": Transcriptions(),
}


def _tail(path: str) -> str | None:
    match = _PREFIX.match(path)
    return path[match.end() :] if match else None


def model_in_path(path: str) -> str:
    """The model that Azure's and Gemini's paths name; empty elsewhere."""
    match = _PREFIX.match(path)
    if match is None:
        return ""
    if deployment := match["deployment"]:
        return deployment
    gemini = _GEMINI.fullmatch(path[match.end() :])
    return gemini["model"] if gemini else ""


def shape_for(received: Received) -> Shape | None:
    """The dialect of a request; None where the simulator serves nothing."""
    tail = _tail(received.path)
    if tail is None:
        return None
    if received.method == "POST":
        if gemini := _GEMINI.fullmatch(tail):
            return Gemini(gemini["verb"])
        if tail in _SHAPES:
            return _SHAPES[tail]
    return PassThrough(received)


def directory_answer(received: Received, memory: Memory) -> tuple[int, JsonObject] | None:
    """Status and body for GET models, generations and stored responses; None if it is another request."""
    tail = _tail(received.path)
    if tail is None:
        return None
    if received.method in {"GET", "HEAD"} and tail == "/models":
        return 200, _model_list(received)
    if received.method in {"GET", "HEAD"} and tail.startswith("/models/"):
        return 200, _model(received, tail.removeprefix("/models/"))
    if received.method in {"GET", "HEAD"} and tail == "/generation":
        return _generation(memory, received.query.get("id", ""))
    if match := _STORED.fullmatch(tail):
        return _stored(received, memory, match["id"], is_cancel=bool(match["cancel"]))
    return None


def _model(received: Received, name: str) -> JsonObject:
    if received.path.startswith("/v1beta"):
        verbs = ["generateContent", "countTokens", "embedContent"]
        return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": verbs}
    if received.header("anthropic-version"):
        return {"type": "model", "id": name, "display_name": name, "created_at": "2023-11-14T22:13:20Z"}
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": "simulator"}


def _model_list(received: Received) -> JsonObject:
    names = [row.example for row in all_behaviours()]
    models = [_model(received, name) for name in names]
    if received.path.startswith("/v1beta"):
        return {"models": models}
    if received.header("anthropic-version"):
        return {"data": models, "has_more": False, "first_id": names[0], "last_id": names[-1]}
    return {"object": "list", "data": models}


def _generation(memory: Memory, identifier: str) -> tuple[int, JsonObject]:
    generation = memory.generation(identifier)
    if generation is None:
        return 404, OpenAIErrors().error(fault_for(404, f"Generation {identifier} not found"))
    return 200, {"data": generation}


def _stored(
    received: Received, memory: Memory, name: str, *, is_cancel: bool
) -> tuple[int, JsonObject] | None:
    wanted = ("POST",) if is_cancel else ("GET", "HEAD", "DELETE")
    if received.method not in wanted:
        return None
    if name not in memory.stored:
        return 404, OpenAIErrors().error(fault_for(404, f"Response with id '{name}' not found."))
    if received.method == "DELETE":
        del memory.stored[name]
        return 200, {"id": name, "object": "response", "deleted": True}
    if is_cancel:
        memory.stored[name]["status"] = "cancelled"
    return 200, memory.stored[name]
