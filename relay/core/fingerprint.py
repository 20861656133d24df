"""Whether two requests ask the same: a keyed hash of method, path, query and body.

A multipart form is hashed by its parts, because clients draw a new boundary for each request. Every piece
goes in with its length, so no two different requests can look alike. Must not know dialects or endpoints.
"""

import hashlib
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from relay.core.multipart import is_form

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

_DIGEST_BYTES = 32
_KEY_BYTES_MAX = 64


def fingerprint(secret: bytes, method: str, target: str, body: bytes, content_type: str) -> str:
    """Hex. secret: nobody without it can tell which body a fingerprint belongs to. target: path and query.

    Time is linear in the body's size. Never fails: a form that cannot be read is hashed by its bytes.
    """
    pieces = _Pieces(secret)
    pieces.add(method.encode("utf-8", "surrogatepass"))
    pieces.add(target.encode("utf-8", "surrogatepass"))
    parts = _form_digest(secret, body, content_type) if is_form(content_type) else None
    pieces.add(b"bytes" if parts is None else b"form")
    pieces.add(body if parts is None else parts)
    return pieces.digest().hex()


class _Pieces:
    """A hash over pieces with their lengths."""

    def __init__(self, secret: bytes) -> None:
        self._hash = hashlib.blake2b(digest_size=_DIGEST_BYTES, key=secret[:_KEY_BYTES_MAX])

    def add(self, piece: bytes | memoryview) -> None:
        self._hash.update(len(piece).to_bytes(8, "big"))
        self._hash.update(piece)

    def digest(self) -> bytes:
        return self._hash.digest()


class _FormReader:
    """The parser's callbacks. The whole body comes in one write, so offsets are offsets in it.

    A header's name or value may come in several slices, as may a part's data: each ends where the next
    thing begins.
    """

    def __init__(self, secret: bytes) -> None:
        self.pieces = _Pieces(secret)
        self.is_complete = False
        self._name = self._value = b""
        self._data_from = self._data_to = 0
        self._body = b""

    @property
    def callbacks(self) -> "MultipartCallbacks":
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        self.pieces.add(b"part")
        self._data_from = self._data_to = 0

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self.pieces.add(self._name.lower())
        self.pieces.add(self._value.strip())
        self._name = self._value = b""

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._data_from == self._data_to:
            self._data_from = start
        self._data_to = end
        self._body = data

    def _end(self) -> None:
        self.pieces.add(b"data")
        self.pieces.add(memoryview(self._body)[self._data_from : self._data_to])

    def _finish(self) -> None:
        self.is_complete = True


def _form_digest(secret: bytes, body: bytes, content_type: str) -> bytes | None:
    """Of all parts in their order; None for what is no whole form."""
    boundary = parse_options_header(content_type)[1].get(b"boundary")
    if not boundary:
        return None
    reader = _FormReader(secret)
    try:
        MultipartParser(boundary, reader.callbacks).write(body)
    except FormParserError:
        return None
    return reader.pieces.digest() if reader.is_complete else None
