"""Streams and chunks for the tests of Gemini's dialect, put as the API puts them.

https://ai.google.dev/gemini-api/docs/text-generation, /function-calling, /thinking, /code-execution.
"""

import json
from collections.abc import Iterable

from relay.core.dialects.base import Ask, EventKind, StreamInspector
from relay.core.dialects.gemini import GEMINI, GEMINI_ARRAY
from relay.core.sse import Event, EventStreamParser

PATH = "/v1beta/models/gemini-2.5-flash"
GENERATE, STREAM = f"{PATH}:generateContent", f"{PATH}:streamGenerateContent"
QUESTION = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def usage(prompt: int = 7, candidates: int | None = None, **counts: object) -> dict[str, object]:
    found: dict[str, object] = {"promptTokenCount": prompt}
    if candidates is not None:
        found["candidatesTokenCount"] = candidates
    return {**found, **counts}


def candidate(
    *parts: object, index: int = 0, finish: str | None = None, **members: object
) -> dict[str, object]:
    found: dict[str, object] = {"content": {"parts": list(parts), "role": "model"}}
    if finish is not None:
        found["finishReason"] = finish
    return {**found, "index": index, **members}


def chunk(*candidates: object, usage: object = None, **members: object) -> bytes:
    body = {"candidates": list(candidates), "usageMetadata": usage or {"promptTokenCount": 7}}
    return frame({**body, "modelVersion": "gemini-2.5-flash", "responseId": "r1", **members})


def frame(body: object) -> bytes:
    """With the line ends of Google's servers."""
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\r\n\r\n"


def said(text: str, index: int = 0, **members: object) -> bytes:
    return chunk(candidate({"text": text}, index=index), **members)


def ended(reason: str = "STOP", index: int = 0, text: str = "", **counts: object) -> bytes:
    return chunk(
        candidate({"text": text}, index=index, finish=reason), usage=usage(**(counts or {"candidates": 5}))
    )


def calling(name: str, args: object, **members: object) -> dict[str, object]:
    return {"functionCall": {"name": name, "args": args}, **members}


HELLO = said("Hello") + said("! Größe 😀") + ended(candidates=5, totalTokenCount=12)
THINKING = b"".join(
    [
        chunk(candidate({"text": "First,", "thought": True}), usage=usage(thoughtsTokenCount=20)),
        chunk(candidate({"text": " then.", "thought": True}), usage=usage(thoughtsTokenCount=41)),
        said("12,231", usage=usage(7, 6, thoughtsTokenCount=41, totalTokenCount=54)),
        chunk(
            candidate({"text": "", "thoughtSignature": "EqQBCgIYAhIM"}, finish="STOP"),
            usage=usage(7, 6, thoughtsTokenCount=41, totalTokenCount=54),
        ),
    ]
)
TOOLS = b"".join(
    [
        said("Let me look."),
        chunk(
            candidate(
                calling("get_weather", {"city": "Paris"}, thoughtSignature="c2ln"),
                calling("get_weather", {"city": "Oslo"}),
            )
        ),
        ended(candidates=30),
    ]
)
CODE = b"".join(
    [
        chunk(candidate({"executableCode": {"language": "PYTHON", "code": "print(2)"}})),
        chunk(
            candidate({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n"}}), usage=usage(7, 9)
        ),
        ended("STOP", candidates=9),
        said("It is 2."),
        ended("STOP", candidates=14, toolUsePromptTokenCount=40, totalTokenCount=61),
    ]
)
TWO = b"".join(
    [said("one"), said("eins", 1), ended("STOP", 0, candidates=1), ended("MAX_TOKENS", 1, candidates=2)]
)
STREAMS = {"hello": HELLO, "thinking": THINKING, "tools": TOOLS, "code": CODE}

OVERLOADED = frame({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}})


def ask(path: str = STREAM, query: str = "alt=sse", **fields: object) -> Ask:
    dialect = GEMINI if "alt=sse" in query else GEMINI_ARRAY
    return dialect.parse_call(path, query, json.dumps({**QUESTION, **fields}).encode())


def events_of(*data: bytes) -> list[Event]:
    parser = EventStreamParser(keep_comments=True)
    events = [event for piece in data for event in parser.feed(piece)]
    return [*events, *parser.close()]


def observed(*data: bytes, of: Ask | None = None) -> tuple[StreamInspector, list[EventKind], bytes]:
    """The inspector after the stream, its verdicts, and the bytes the client got."""
    inspector = GEMINI.stream_inspector(of or ask())
    results = [inspector.observe(event, 0) for event in events_of(*data)]
    return inspector, [kind for kind, _ in results], b"".join(out for _, out in results)


def aggregated(*data: bytes) -> dict[str, object]:
    aggregator = GEMINI.aggregator(ask())
    for event in events_of(*data):
        aggregator.add(event)
    return dict(json.loads(aggregator.whole()))


def soft_errors(inspector: StreamInspector) -> list[str]:
    return [error.error_class for error in inspector.facts.soft_errors]


def cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [*pieces, data[at:]]
