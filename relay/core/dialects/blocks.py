"""What is left out of the blocks of any stream of OpenAI's SDKs, whatever its events say.

- `without_id_and_retry`: the official Python SDK raises on comments once an `id:` line was seen.
- `comments_of`: it raises on blocks without `data`; their comments pass.

Must not import a dialect.
"""

from relay.core.sse import Event


def passed(event: Event) -> bytes:
    """The event's own bytes, but for what `without_id_and_retry` takes out."""
    if event.id or event.retry is not None:
        return without_id_and_retry(event.raw)
    return event.raw


def without_id_and_retry(raw: bytes) -> bytes:
    """The block without its `id` and `retry` lines; b"" when nothing but blank lines is left."""
    lines = raw.splitlines(keepends=True)
    kept = [line for line in lines if _field_name(line) not in (b"id", b"retry")]
    if len(kept) == len(lines):
        return raw
    return b"".join(kept) if any(map(bytes.strip, kept)) else b""


def comments_of(raw: bytes) -> bytes:
    """The comments of a block that has no data, as a block; b"" when it has none."""
    lines = raw.splitlines(keepends=True)
    if all(line.startswith(b":") or not line.strip() for line in lines):
        return raw
    comments = comment_lines(raw)
    return comments + b"\n" if comments else b""


def comment_lines(raw: bytes) -> bytes:
    if not raw.startswith(b":") and b"\n:" not in raw and b"\r:" not in raw:
        return b""
    return b"".join(line.rstrip(b"\r\n") + b"\n" for line in raw.splitlines() if line.startswith(b":"))


def _field_name(line: bytes) -> bytes:
    return line.partition(b":")[0].rstrip(b"\r\n")
