"""OpenAI's older text completions: a prompt in, `choices[].text` out; streams and usage are those of chat.

Source: https://platform.openai.com/docs/api-reference/completions.
"""

from collections.abc import Iterator, Mapping

import msgspec

from relay.core.dialects.base import AggregationFailed, Aggregator, Ask, StreamInspector
from relay.core.dialects.json_body import MAX_ITEMS
from relay.core.dialects.members import Members, answer_members, is_set, items, members, text
from relay.core.dialects.openai_chat import OpenAIChat, request
from relay.core.dialects.openai_chat.inspector import OpenAIChatInspector
from relay.core.dialects.pieces import pieces
from relay.core.dialects.request_fields import Fields, given, missing
from relay.core.errors import Refusal
from relay.core.sse import DONE, Event, encode_event

_NULL = msgspec.Raw(b"null")
_read_index = msgspec.json.Decoder(int).decode


class OpenAICompletions(OpenAIChat):
    """The `Dialect`: chat's, but for the request's prompt and the answer's text."""

    name = "openai_completions"

    def parse_request(self, body: bytes) -> Ask:
        return request.parse_request(body, count=prompt_count)

    def stream_inspector(self, ask: Ask) -> StreamInspector:
        """Each prompt of a list has `n` choices of its own."""
        choices = request.choices_asked(ask.fields) * max(1, ask.message_count)
        return OpenAIChatInspector(ask, choices)

    def aggregator(self, ask: Ask) -> Aggregator:  # noqa: ARG002 - the protocol's signature
        return CompletionsAggregator()

    def whole_to_events(self, body: bytes, ask: Ask) -> Iterator[bytes]:
        answer = answer_members(body)
        choices = [members(choice) for choice in items(answer.get("choices")) or ()]
        return _frames(answer, choices, include_usage=ask.include_usage)


def prompt_count(fields: Fields) -> int:
    """How many prompts: a text is one, and so is a list of tokens. Raises `Refusal` (400)."""
    raw = given(fields, "prompt")
    if raw is None:
        raise missing("prompt")
    prompts = items(raw)
    if not prompts or bytes(prompts[0])[:1] not in (b'"', b"["):
        return 1
    if len(prompts) > MAX_ITEMS:
        message = f"'prompt' has more than {MAX_ITEMS} entries."
        raise Refusal(400, message, code="invalid_value", param="prompt")
    return len(prompts)


class CompletionsAggregator:
    """`Aggregator` for text completions."""

    def __init__(self) -> None:
        self._members: Members = {}
        self._choices: dict[int, _ChoiceSoFar] = {}

    def add(self, event: Event) -> None:
        try:
            chunk = answer_members(event.data.encode("utf-8", "replace"))
        except ValueError:  # the terminal; what is broken was judged by the inspector
            return
        choices = items(chunk.pop("choices", None)) or []
        self._members |= {
            name: raw for name, raw in chunk.items() if is_set(raw) or name not in self._members
        }
        for position, raw in enumerate(choices):
            choice = members(raw)
            self._choices.setdefault(_index(choice, position), _ChoiceSoFar()).add(choice)

    def whole(self) -> bytes:
        """The JSON body. Raises `AggregationFailed` with `incomplete`."""
        choices = [self._choices[index].whole(index) for index in sorted(self._choices)]
        if not choices or not all(choice["finish_reason"] for choice in choices):
            raise AggregationFailed("incomplete")
        return msgspec.json.encode({**self._members, "choices": choices})


class _ChoiceSoFar:
    __slots__ = ("_logprobs", "_members", "_texts")

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._logprobs: dict[str, list[msgspec.Raw] | None] = {}
        self._members: Members = {}

    def add(self, choice: Members) -> None:
        self._texts.append(text(choice.get("text")))
        for name, raw in members(choice.get("logprobs")).items():
            known, found = self._logprobs.get(name), items(raw)
            if known is not None and found is not None:
                known.extend(found)
            else:
                self._logprobs[name] = known if found is None else found
        for name, raw in choice.items():
            if name not in ("index", "text", "logprobs") and (is_set(raw) or name not in self._members):
                self._members[name] = raw

    def whole(self, index: int) -> dict[str, object]:
        reason = text(self._members.get("finish_reason"))
        answer: dict[str, object] = {"text": "".join(self._texts), "index": index}
        return {
            **answer,
            **self._members,
            "logprobs": self._logprobs or None,
            "finish_reason": reason or None,
        }


def _frames(answer: Members, choices: list[Members], *, include_usage: bool) -> Iterator[bytes]:
    head: dict[str, object] = {name: raw for name, raw in answer.items() if name not in ("choices", "usage")}
    for position, choice in enumerate(choices):
        index = _index(choice, position)
        for piece in pieces(text(choice.get("text"))):
            yield _frame(head, [{"text": piece, "index": index, "logprobs": None, "finish_reason": None}])
        yield _frame(head, [{**choice, "text": "", "index": index}])
    usage = answer.get("usage")
    if include_usage and usage is not None and is_set(usage):
        yield _frame({**head, "usage": usage}, [])
    yield DONE


def _frame(head: Mapping[str, object], choices: list[dict[str, object]]) -> bytes:
    return encode_event(msgspec.json.encode({**head, "choices": choices}))


def _index(choice: Members, position: int) -> int:
    try:
        return _read_index(choice.get("index", _NULL))
    except msgspec.MsgspecError:
        return position


OPENAI_COMPLETIONS = OpenAICompletions()
