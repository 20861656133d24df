"""What the simulator was sent, kept for tests to look at.

Must not import: Django, aiohttp, the rest of the simulator but its JSON helpers.
"""

import re
from dataclasses import dataclass, field

import orjson

from gateway.simulator.json_values import JsonObject, as_object, as_text

_BOUNDARY = re.compile(r'boundary="?([^";]+)"?', re.IGNORECASE)
_PARAMETER = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class FormPart:
    """One part of a multipart body, in the order of the body; `body` is byte-exact."""

    name: str
    filename: str | None
    content_type: str | None
    body: bytes


@dataclass(slots=True)
class Received:
    """One request. Times are of the monotonic clock, in seconds.

    `left_at` is set when the client went away (or the simulator stopped) before the answer was complete,
    `finished_at` when the answer was complete, which a deliberate cut or error is too.
    """

    method: str
    path: str
    raw_path: str
    query: dict[str, str]
    headers: tuple[tuple[str, str], ...]
    body: bytes
    at: float
    path_model: str = ""
    json: JsonObject = field(default_factory=dict)
    parts: list[FormPart] = field(default_factory=list)
    left_at: float | None = None
    finished_at: float | None = None

    def header(self, name: str) -> str | None:
        """The first header of that name, whatever its case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def content_type(self) -> str:
        """The request's content type, empty if it named none."""
        return self.header("content-type") or ""

    @property
    def model(self) -> str:
        """The model asked for: in the path, JSON or form field, query parameter; empty if there is none."""
        return self.path_model or as_text(self.json.get("model")) or self.query.get("model", "")

    def parse_body(self) -> None:
        """Fill `json` and `parts`. Fields of a form that are no files stand in `json` as strings."""
        if self.content_type.startswith("multipart/"):
            self.parts = parse_multipart(self.content_type, self.body)
            self.json = {p.name: p.body.decode("utf-8", "replace") for p in self.parts if p.filename is None}
            return
        try:
            self.json = as_object(orjson.loads(self.body)) if self.body else {}
        except orjson.JSONDecodeError:
            self.json = {}


def parse_multipart(content_type: str, body: bytes) -> list[FormPart]:
    """Split a multipart/form-data body (RFC 7578); what is not well-formed is left out."""
    match = _BOUNDARY.search(content_type)
    if match is None:
        return []
    delimiter = b"\r\n--" + match.group(1).encode()
    sections = (b"\r\n" + body).split(delimiter)[1:]
    parts = []
    for section in sections:
        if section.startswith(b"--"):
            break
        head, separator, content = section.partition(b"\r\n\r\n")
        if separator:
            parts.append(_form_part(head.decode("utf-8", "replace"), content))
    return parts


def _form_part(head: str, content: bytes) -> FormPart:
    disposition, content_type = "", None
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        if name.strip().lower() == "content-disposition":
            disposition = value
        elif name.strip().lower() == "content-type":
            content_type = value.strip()
    parameters = dict(_PARAMETER.findall(disposition))
    return FormPart(parameters.get("name", ""), parameters.get("filename"), content_type, content)
