"""The closed list of what the relay changes in a message stream, because clients crash or mislead otherwise.

Everything else passes byte for byte.

- `named`: a missing `event:` line; the official SDKs skip events without one, in silence.
- `with_stop_reason`: `end_turn` after whole tool calls; agents then never run them (maximhq/bifrost#6123).
- Blocks without data are withheld, their comments pass: the TypeScript SDK fails on an `event:` line alone
  (anthropics/anthropic-sdk-typescript#861).

Withheld as a whole, by the inspector: frames that are not JSON or no event of this protocol, `[DONE]`, a
second `message_stop`, errors (the relay writes its own). Added: a missing `message_stop`.
Must not decide when a repair is due; the inspector does.
"""

import re

import msgspec

from relay.core.sse import Event, encode_event

_NAME = re.compile(r"[a-z_]{1,64}", re.ASCII)
_Members = dict[str, msgspec.Raw]
_read_members = msgspec.json.Decoder(_Members).decode


def named(event: Event, name: str) -> bytes:
    """The event's frame under the name that its payload has; as it came where that is no name."""
    if not _NAME.fullmatch(name):
        return event.raw
    raw = event.raw
    if not raw.startswith(b"data") or b"\nevent" in raw or b"\revent" in raw:  # `event: message`, or no name
        raw = b"".join(line for line in raw.splitlines(keepends=True) if not line.startswith(b"event"))
    return b"event: " + name.encode() + b"\n" + raw


def with_stop_reason(event: Event, reason: str) -> bytes:
    """A `message_delta` with another stop reason. Raises ValueError when the data cannot be taken apart."""
    members: dict[str, object] = dict(_read_members(event.data))
    delta = members["delta"]
    if not isinstance(delta, msgspec.Raw):
        raise TypeError(type(delta).__name__)
    members["delta"] = {**_read_members(delta), "stop_reason": reason}
    return encode_event(msgspec.json.encode(members), "message_delta")
