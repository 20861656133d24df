"""The items of a response that the relay accounts for: tool calls, which must be whole, and pictures.

Bounded memory; never raises. Must not know events.
"""

import msgspec

from relay.core.dialects.openai_responses.event import Item
from relay.core.tool_calls import MAX_ARGUMENT_CHARS, MAX_CALLS, are_whole_arguments

CLIENT_TOOL_CALLS = frozenset({"function_call", "custom_tool_call"})
"""Calls of the client's own tools; all others are carried out by the upstream."""

ANNOUNCED_ONLY = CLIENT_TOOL_CALLS | {"message", "reasoning"}
"""Items whose opening carries nothing yet. With any other the upstream has begun to do something."""

_RUN_BY_CLIENTS = CLIENT_TOOL_CALLS | {"computer_call", "local_shell_call", "shell_call", "apply_patch_call"}

IMAGE_CALL = "image_generation_call"
_NO_PICTURE = frozenset({b"null", b'""'})


class _Part(msgspec.Struct, gc=False):
    text: str | None = None
    refusal: str | None = None


_read_parts = msgspec.json.Decoder(list[_Part]).decode


def is_run_upstream(item: Item) -> bool:
    """Whether the upstream carries a tool out itself: search, code, pictures, MCP."""
    kind = item.type or ""
    return (kind.endswith("_call") and kind not in _RUN_BY_CLIENTS) or kind.startswith("mcp_")


def is_whole_call(item: Item) -> bool:
    """Whether a tool call can be carried out. One that says itself that it was cut is not looked at."""
    if item.status == "incomplete":
        return True
    if not item.name or not item.call_id:
        return False
    return item.type != "function_call" or are_whole_arguments(item.arguments or "")


def has_picture(item: Item) -> bool:
    return item.type == IMAGE_CALL and bytes(item.result) not in _NO_PICTURE


def text_of(item: Item) -> str:
    """What an item says, for estimates; "" for what it says in other ways."""
    if item.type in CLIENT_TOOL_CALLS:
        return item.arguments or item.input or ""
    try:
        parts = _read_parts(item.content)
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return "".join(part.text or part.refusal or "" for part in parts)


class OutputItems:
    """Tool calls and pictures of one stream, by their place in the output."""

    __slots__ = ("_calls", "_chars", "_checked", "_pictures", "_pieces")

    def __init__(self) -> None:
        self._calls: set[int] = set()
        self._checked: set[int] = set()
        self._pieces: dict[int, list[str] | None] = {}
        """Arguments of calls that are not done; None when there were too many to keep."""
        self._chars = 0
        self._pictures: set[int] = set()

    @property
    def call_count(self) -> int:
        return len(self._calls)

    @property
    def picture_count(self) -> int:
        return len(self._pictures)

    def opened(self, index: int, item: Item) -> None:
        if item.type in CLIENT_TOOL_CALLS and len(self._calls) < MAX_CALLS:
            self._calls.add(index)

    def argued(self, index: int, delta: str) -> None:
        """A piece of a call's arguments."""
        if index not in self._pieces and len(self._pieces) >= MAX_CALLS:
            return
        pieces = self._pieces.setdefault(index, [])
        if pieces is None:
            return
        self._chars += len(delta)
        if self._chars > MAX_ARGUMENT_CHARS:
            self._chars -= len(delta) + sum(map(len, pieces))
            self._pieces[index] = None
            return
        pieces.append(delta)

    def done(self, index: int, item: Item) -> bool:
        """False when the item is a tool call that is not whole, or not what its pieces were."""
        pieces = self._pieces.pop(index, None)
        joined = None if pieces is None else "".join(pieces)
        self._chars -= len(joined or "")
        if has_picture(item) and len(self._pictures) < MAX_CALLS:
            self._pictures.add(index)
        if item.type not in CLIENT_TOOL_CALLS or index in self._checked:
            return True
        self.opened(index, item)
        if len(self._checked) < MAX_CALLS:
            self._checked.add(index)
        if joined is None:
            return is_whole_call(item)
        said = item.arguments if item.type == "function_call" else item.input
        if said is None:  # the pieces are all there is
            return bool(item.name and item.call_id) and (
                item.type != "function_call" or are_whole_arguments(joined)
            )
        return is_whole_call(item) and (said == joined or item.status == "incomplete")

    def all_done(self) -> bool:
        """False when pieces of a call came that never was done."""
        return not self._pieces
