"""Reads the small text fields of a multipart form where they stand; files are skipped and nothing is copied.

A form that another reader could understand differently is refused: the gateway checks the model it reads
here, and the upstream obeys the one it reads there. Source: RFC 7578. Must not know dialects or endpoints.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from relay.core.errors import Refusal

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MAX_PARTS = 1_000
"""Nothing honest comes near it: 16 pictures and some fields are the most that an endpoint takes."""

MAX_TEXT_BYTES = 1_024
"""Of one field that is read. Prompts are not read."""

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAME = re.compile(r";\s*name\s*(\*?)", re.IGNORECASE)
_PLAIN_CODINGS = frozenset({"", "7bit", "8bit", "binary"})


class FormField(msgspec.Struct, frozen=True, gc=False):
    """start, end: where the value stands in the body."""

    text: str
    start: int
    end: int


class Form(msgspec.Struct, frozen=True, gc=False):
    """fields: the wanted ones, by name. text_bytes: of all values that are no files. files: how many are."""

    fields: Mapping[str, FormField]
    text_bytes: int
    files: int


def is_form(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "multipart/form-data"


def read_form(body: bytes, content_type: str, wanted: Collection[str]) -> Form:
    """The text fields named in `wanted`, as far as they are there, and what the form is made of.

    Time is linear in the body's size. Raises `Refusal` (400): broken framing, too many parts, and a wanted
    name that stands twice, belongs to a file, or is given in a way that readers disagree about.
    """
    boundary = _boundary(content_type)
    if body.count(b"\r\n--" + boundary) > MAX_PARTS:
        raise _refused(f"it has more than {MAX_PARTS} parts")
    reader = _Reader(body, frozenset(wanted))
    try:
        parser = MultipartParser(boundary, reader.callbacks)
        parser.write(body)
    except FormParserError:
        raise _refused("its framing is broken") from None
    if not reader.is_complete:
        raise _refused("its last boundary is missing")
    return Form(reader.fields, reader.text_bytes, reader.files)


@dataclass(slots=True)
class _Part:
    dispositions: list[str] = field(default_factory=list)
    coding: str = ""
    start: int = 0
    end: int = 0


class _Reader:
    """The parser's callbacks. The whole body comes in one write, so offsets are offsets in it."""

    def __init__(self, body: bytes, wanted: frozenset[str]) -> None:
        self.fields: dict[str, FormField] = {}
        self.text_bytes = 0
        self.files = 0
        self.is_complete = False
        self._body = body
        self._wanted = wanted
        self._part = _Part()
        self._header = ""

    @property
    def callbacks(self) -> "MultipartCallbacks":
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        self._part = _Part()

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._header = data[start:end].decode("latin-1").lower()

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        value = data[start:end].decode("utf-8", "replace")
        if self._header == "content-disposition":
            self._part.dispositions.append(value)
        elif self._header == "content-transfer-encoding":
            self._part.coding = value.strip().lower()

    def _data(self, _data: bytes, start: int, end: int) -> None:
        self._part.start, self._part.end = start, end

    def _end(self) -> None:
        part = self._part
        if len(part.dispositions) != 1:
            raise _refused("a part has not exactly one Content-Disposition")
        [disposition] = part.dispositions
        options = _options(disposition)
        names = _NAME.findall(_QUOTED.sub('""', disposition))
        if names != [""] or "\\" in options.get("name", ""):
            raise _refused("a part has not exactly one plain name")
        is_file = "filename" in options or "filename*" in disposition.lower()
        self.files += is_file
        self.text_bytes += 0 if is_file else part.end - part.start
        name = options.get("name", "")
        if name in self._wanted:
            self._take(name, part, is_file=is_file)

    def _take(self, name: str, part: _Part, *, is_file: bool) -> None:
        if name in self.fields:
            raise _refused_field(name, "stands twice")
        if is_file or part.coding not in _PLAIN_CODINGS:
            raise _refused_field(name, "must be plain text")
        if part.end - part.start > MAX_TEXT_BYTES:
            raise _refused_field(name, "is too long")
        try:
            text = self._body[part.start : part.end].decode()
        except UnicodeDecodeError:
            raise _refused_field(name, "is not UTF-8") from None
        self.fields[name] = FormField(text, part.start, part.end)

    def _finish(self) -> None:
        self.is_complete = True


def _boundary(content_type: str) -> bytes:
    if len(re.findall(r";\s*boundary", _QUOTED.sub('""', content_type), re.IGNORECASE)) != 1:
        raise _refused("its Content-Type names not exactly one boundary")
    boundary = _options(content_type).get("boundary", "")
    if not boundary:
        raise _refused("its Content-Type names no boundary")
    return boundary.encode("latin-1", "replace")


def _options(header: str) -> dict[str, str]:
    """Parameters of a header by their names in lower case."""
    options = parse_options_header(header.encode("utf-8").decode("latin-1"))[1]
    return {
        name.decode("latin-1").strip().lower(): value.decode("utf-8", "replace")
        for name, value in options.items()
    }


def _refused(detail: str) -> Refusal:
    return Refusal(400, f"The multipart form could not be read: {detail}.", code="invalid_form")


def _refused_field(name: str, detail: str) -> Refusal:
    return Refusal(400, f"The form field '{name}' {detail}.", code="invalid_form", param=name)
