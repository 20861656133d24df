"""The closed list of what the relay changes in a Gemini stream, because SDKs crash or mislead otherwise.

Everything else passes byte for byte.

- `as_plain_frame`: one `data: ` line an event. The SDKs read every other line (a comment, `event:`, `id:`,
  `data:` without the space, the parts of data in several lines) as JSON, stop, or drop the event behind it
  (googleapis/go-genai#903, googleapis/python-genai#487, earendil-works/pi#9633).
- Line separators of Unicode within a text are escaped: SDKs that cut lines as Python does cut there
  (BerriAI/litellm#30602).

Withheld as a whole, by the inspector: comments, frames that are not JSON or of another protocol, `[DONE]`,
errors (the relay writes its own). Must not decide when a repair is due; the inspector does.
"""

from relay.core.sse import Event, encode_event

_SEPARATORS = {b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029", b"\xc2\x85": b"\\u0085"}
_START = b"data: "


def as_plain_frame(event: Event) -> bytes:
    """The event's own bytes where they are one `data: ` line."""
    raw = event.raw
    if raw.endswith(b"\n\r"):  # a read ended between the two bytes of the last line's end
        raw += b"\n"
    if not raw.startswith(_START) or raw.count(b"\n") != 2 or not raw.endswith((b"\n\n", b"\n\r\n")):
        raw = encode_event(event.data.replace("\n", " "))  # between members: a string holds no line end
    return escaped(raw)


def escaped(data: bytes) -> bytes:
    """JSON whose strings hold no line ends of Unicode; outside of strings there are none."""
    for separator, escape in _SEPARATORS.items():
        if separator in data:
            data = data.replace(separator, escape)
    return data
