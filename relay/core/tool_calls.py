"""Assembles tool calls out of streamed fragments and says whether each is whole and valid.

Vendors number fragments badly: Ollama streams `index: 0` for every call of a parallel batch
(ollama/ollama#15457), older builds and Mistral send no index at all (ollama/ollama#7881). A call is
therefore known by its id, and gets its number in order of appearance. Must not know a dialect.
"""

import json
from dataclasses import dataclass, field

import msgspec

MAX_CALLS = 1_024
MAX_ARGUMENT_CHARS = 4 * 1024 * 1024
"""Held at once, over all calls of a stream. A call beyond it goes on unchecked."""

_skip_json = msgspec.json.Decoder(msgspec.Raw).decode


@dataclass(slots=True)
class _Call:
    number: int
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    consistent: bool = True
    checked: bool = True
    """False when there were too many arguments to keep."""

    def is_valid(self) -> bool:
        if not self.name or not self.consistent:
            return False
        return not self.checked or are_whole_arguments("".join(self.arguments))

    def has_whole_arguments(self) -> bool:
        text = "".join(self.arguments)
        return bool(text.strip()) and is_json(text)


@dataclass(slots=True)
class _ChoiceCalls:
    calls: list[_Call] = field(default_factory=list)
    by_id: dict[str, _Call] = field(default_factory=dict)
    by_index: dict[int, _Call] = field(default_factory=dict)
    """The upstream's own index → the last call that came under it."""
    numbers: set[int] = field(default_factory=set)
    valid: bool | None = None
    """Set by the check; the fragments are dropped then."""


class ToolCallAssembler:
    """The tool calls of one stream, by choice. Bounded memory; never raises."""

    __slots__ = (
        "_argument_chars", "_choices", "count",
    )  # fmt: skip

    def __init__(self) -> None:
        self._choices: dict[int, _ChoiceCalls] = {}
        self._argument_chars = 0
        self.count = 0

    def add(
        self, choice: int, *, index: int | None, call_id: str | None, name: str | None, arguments: str | None
    ) -> int:
        """Takes one fragment. Returns the number that its call has towards the client."""
        calls = self._choices.get(choice)
        if calls is None:
            if len(self._choices) >= MAX_CALLS:
                return index or 0
            calls = self._choices[choice] = _ChoiceCalls()
        call = self._find(calls, index, call_id or "", name or "")
        if call is None:
            if self.count >= MAX_CALLS:
                return index or 0
            call = self._open(calls, index)
        self._extend(calls, call, call_id or "", name or "", arguments or "")
        if index is not None:
            calls.by_index[index] = call
        return call.number

    def has_calls(self, choice: int) -> bool:
        return choice in self._choices

    def check(self, choice: int) -> bool:
        """Whether every call of the choice is whole and valid. True when there is none.

        The answer stands once given: what comes later is not looked at.
        """
        calls = self._choices.get(choice)
        if calls is None:
            return True
        if calls.valid is None:
            calls.valid = all(call.is_valid() for call in calls.calls)
            for call in calls.calls:
                self._drop_arguments(call)
        return calls.valid

    def check_all(self) -> bool:
        return all(map(self.check, tuple(self._choices)))

    def _find(self, calls: _ChoiceCalls, index: int | None, call_id: str, name: str) -> _Call | None:
        """The call a fragment continues, or None when it starts one."""
        if call_id and call_id in calls.by_id:
            return calls.by_id[call_id]
        if index is None:
            current = calls.calls[-1] if calls.calls else None
            return None if call_id or name else current
        current = calls.by_index.get(index)
        if current is None or not name:
            return current  # another id without a name is a muddle, which the check reports
        if call_id and current.id:
            return None
        starts_anew = current.has_whole_arguments() or bool(current.name and name != current.name)
        return None if starts_anew else current

    def _open(self, calls: _ChoiceCalls, index: int | None) -> _Call:
        number = index
        if number is None or number < 0 or number in calls.numbers:
            number = max(calls.numbers, default=-1) + 1
        call = _Call(number=number)
        calls.calls.append(call)
        calls.numbers.add(number)
        self.count += 1
        return call

    def _extend(self, calls: _ChoiceCalls, call: _Call, call_id: str, name: str, arguments: str) -> None:
        if call_id and call_id != call.id:
            call.consistent = call.consistent and not call.id
            call.id = call.id or call_id
            calls.by_id[call_id] = call
        call.name = call.name or name
        if not arguments or not call.checked or calls.valid is not None:
            return
        self._argument_chars += len(arguments)
        if self._argument_chars > MAX_ARGUMENT_CHARS:
            self._argument_chars -= len(arguments)
            self._drop_arguments(call)
            call.checked = False
            return
        call.arguments.append(arguments)

    def _drop_arguments(self, call: _Call) -> None:
        self._argument_chars -= sum(map(len, call.arguments))
        call.arguments.clear()


def are_whole_arguments(text: str) -> bool:
    """Whether a call's arguments are JSON. "" is: many vendors send it for a tool without parameters.

    Reported for Ollama, vLLM, OpenRouter and OpenAI itself (vercel/ai#6687, simonw/llm#1164,
    openai/openai-python#3502); clients read it as `{}`.
    """
    return not text.strip() or is_json(text)


def is_json(text: str) -> bool:
    try:
        _skip_json(text)
    except (ValueError, RecursionError):
        return _is_lenient_json(text)
    return True


def _is_lenient_json(text: str) -> bool:
    """The fast parser refuses halves of surrogate pairs, which are JSON by its grammar."""
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(name)
