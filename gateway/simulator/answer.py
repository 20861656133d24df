"""The question as every dialect asks it, and the answer before a dialect gives it a shape.

Must not import: Django, aiohttp.
"""

import secrets
import time
from dataclasses import dataclass, field
from enum import StrEnum

import orjson

from gateway.simulator.json_values import JsonObject, as_object, as_text
from gateway.simulator.text import count_tokens, repeat_to, split_pieces

NOTHING_SAID = "You said nothing, so there is nothing to echo."


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool the client offers: its name and the JSON schema of its arguments."""

    name: str
    schema: JsonObject


@dataclass(frozen=True, slots=True)
class Ask:
    """What the client asked. `text` is the last user message, `body` the request for dialect fields."""

    model: str
    stream: bool
    text: str
    prompt_tokens: int
    body: JsonObject
    include_usage: bool = True
    choices: int = 1
    max_tokens: int | None = None
    tools: tuple[ToolSpec, ...] = ()
    is_after_tool_result: bool = False
    logprobs: bool = False


class Finish(StrEnum):
    """Why the answer ended, in OpenAI's words; the shapes translate."""

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    TOOL_CALLS = "tool_calls"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call. `arguments` is the text sent, valid JSON or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is said. `is_tool_call_whole`: a call comes in one event instead of fragments."""

    ask: Ask
    pieces: tuple[str, ...]
    finish: Finish = Finish.STOP
    choices: int = 1
    reasoning: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    is_tool_call_whole: bool = False
    is_refusal: bool = False
    logprobs: bool = False
    cached_tokens: int = 0
    id: str = field(default_factory=lambda: secrets.token_hex(14))
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def text(self) -> str:
        """The whole text of one choice."""
        return "".join(self.pieces)

    @property
    def completion_tokens(self) -> int:
        """Pieces of text, reasoning and arguments, over all choices."""
        arguments = sum(count_tokens(call.arguments) for call in self.tool_calls)
        return self.choices * (len(self.pieces) + len(self.reasoning) + arguments)

    @property
    def reasoning_tokens(self) -> int:
        """The part of the completion that was reasoning."""
        return self.choices * len(self.reasoning)


def echo_of(ask: Ask, *, at_least: int = 0) -> Answer:
    """Say the client's own words again, cut at its token limit; repeated if a behaviour needs more pieces."""
    pieces = split_pieces(ask.text) or split_pieces(NOTHING_SAID)
    finish = Finish.STOP
    if ask.max_tokens is not None and ask.max_tokens < len(pieces):
        pieces, finish = pieces[: ask.max_tokens], Finish.LENGTH
    if len(pieces) < at_least:
        pieces = repeat_to(pieces, at_least)
    return Answer(ask=ask, pieces=pieces, finish=finish, choices=ask.choices, logprobs=ask.logprobs)


def call_of(ask: Ask, number: int = 0) -> ToolCall:
    """A call of the client's n-th tool (round and round), or of a weather tool if it offers none."""
    fallback = ToolSpec("get_weather", {"properties": {"city": {"type": "string"}}, "required": ["city"]})
    tools = ask.tools or (fallback,)
    tool = tools[number % len(tools)]
    city = ("Paris", "Oslo", "Lima", "Kyoto")[number % 4]
    arguments = orjson.dumps(_arguments(tool.schema, city)).decode()
    return ToolCall(id=f"call_{secrets.token_hex(12)}", name=tool.name, arguments=arguments)


def _arguments(schema: JsonObject, word: str) -> JsonObject:
    samples: JsonObject = {
        "string": word,
        "integer": 3,
        "number": 1.5,
        "boolean": True,
        "array": [],
        "object": {},
    }
    properties = as_object(schema.get("properties"))
    arguments: JsonObject = {}
    for name, spec in properties.items():
        described = as_object(spec)
        options = described.get("enum")
        kind = as_text(described.get("type")).lower()
        arguments[name] = options[0] if isinstance(options, list) and options else samples.get(kind, word)
    return arguments
