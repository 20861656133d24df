"""The two ways in which Gemini writes a stream: events (`alt=sse`), or the elements of one JSON array.

The upstream is always asked for events, so that an array is judged, timed and charged like any other stream;
its elements are the data of those events, byte for byte. Must not know what a chunk says.
"""

from relay.core.dialects.base import StreamForm

EVENTS = StreamForm(keepalive=b"\r\n")
"""An empty line and no comment: Google's SDKs take each line that is not `data:` for JSON or for an error
(googleapis/go-genai#903, googleapis/python-genai#487), or drop the event behind (earendil-works/pi#9633)."""

JSON_ARRAY = StreamForm(
    content_type=b"application/json; charset=UTF-8", keepalive=b"\n", can_begin_with_error=False
)
"""White space may stand anywhere between two elements. An error is an element, and needs one before it."""

_BETWEEN = b",\r\n"


class ArrayWriter:
    """One array. What it returns goes out in the order in which it was asked for."""

    __slots__ = ("_has_elements",)

    def __init__(self) -> None:
        self._has_elements = False

    def element(self, data: bytes) -> bytes:
        before = _BETWEEN if self._has_elements else b"["
        self._has_elements = True
        return before + data

    def end(self) -> bytes:
        return b"]" if self._has_elements else b"[]"


def last_element(data: bytes) -> bytes:
    """Ends an array that has elements already."""
    return _BETWEEN + data + b"]"
