"""A call of Gemini's API: path, query and body, read for policy and billing, written for the upstream.

The path names model and verb; a body that names a model too must name the same one, so that no upstream can
be asked for another than was allowed and priced. Must not know channels: mapping and overrides are handed in.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote, unquote_plus

import msgspec

from relay.core.dialects.base import Ask
from relay.core.dialects.gemini.framing import EVENTS, JSON_ARRAY
from relay.core.dialects.json_body import read_top_level
from relay.core.dialects.members import items, members, text
from relay.core.dialects.request_fields import Fields, checked_model, counted, given, invalid, missing
from relay.core.errors import Refusal

GENERATE = "generateContent"
STREAM = "streamGenerateContent"

_CALL = re.compile(r"(/v1(?:beta)?/)((models|tunedModels)/([^:][^?]*?)):([A-Za-z]+)", re.ASCII)
_TUNED = "tunedModels/"
_MODELS = "models/"

_ALT = frozenset({"alt", "$alt"})
_MASKS = frozenset({"fields", "$fields", "callback", "$callback"})
"""Leave members out of the answer, its usage too, or wrap it in a script."""

_CACHES = ("cachedContent", "cached_content")
_INNER_REQUEST = ("generateContentRequest", "generate_content_request")


class Call(msgspec.Struct, frozen=True):
    """What a path and a query ask for. `Target` of the dialects here.

    version: `/v1/` or `/v1beta/`. resource: the model as the client spelt it in the path. query: without
    what tells the form of the answer.
    """

    version: str
    resource: str
    model: str
    verb: str
    query: str

    def at(self, *, model: str, stream: bool) -> tuple[str, str]:
        """Path and query. A model under another name than the client's is written anew."""
        resource = self.resource if model == self.model else _quoted(resource_of(model))
        verb = self.verb
        if verb in (GENERATE, STREAM):
            verb = STREAM if stream else GENERATE
        query = "&".join(filter(None, (self.query, "alt=sse" if stream else "")))
        return f"{self.version}{resource}:{verb}", query


def resource_of(model: str) -> str:
    """How the API names a model: `models/m`, but for names that say themselves what they are."""
    return model if model.startswith((_MODELS, _TUNED)) else _MODELS + model


def read_call(path: str, query: str) -> Call:
    """Raises `Refusal` 404 for another path, 400 for a query that would change what is answered."""
    found = _CALL.fullmatch(path)
    if found is None:
        raise Refusal(404, "Unknown request URL.", code="unknown_url")
    version, resource, collection, name, verb = found.groups()
    model = checked_model(unquote(name) if collection == "models" else _TUNED + unquote(name))
    kept = [part for part in query.split("&") if part and _parameter(part) not in _ALT]
    for part in kept:
        if _parameter(part) in _MASKS:
            name = _parameter(part)
            message = f"The query parameter '{name}' is not supported: the answer must come whole."
            raise Refusal(400, message, code="unsupported_parameter", param=name)
    return Call(version, resource, model, verb, "&".join(kept))


def is_events(query: str) -> bool:
    """Whether a stream is asked for as events. Raises `Refusal` 400 for forms other than `sse` and `json`."""
    forms = {
        unquote_plus(part.partition("=")[2]) for part in query.split("&") if part and _parameter(part) in _ALT
    }
    if not forms <= {"sse", "json"} or len(forms) > 1:
        raise Refusal(400, "'alt' must be sse or json.", code="invalid_value", param="alt")
    return forms == {"sse"}


def parse_generate(path: str, query: str, body: bytes) -> Ask:
    call = read_call(path, query)
    has_events = is_events(query)
    fields = read_top_level(body)
    _demand_same_model(fields.get("model"), call.model, "model")
    _refuse_caches(fields)
    if given(fields, "contents") is None:
        raise missing("contents")
    is_stream = call.verb == STREAM
    return Ask(
        model=call.model,
        stream=is_stream,
        include_usage=True,
        fields=fields,
        message_count=_contents(fields),
        tool_count=counted(fields, "tools"),
        stream_form=JSON_ARRAY if is_stream and not has_events else EVENTS,
        target=call,
    )


def parse_count(path: str, query: str, body: bytes) -> Ask:
    call, fields = _call_and_fields(path, query, body)
    for name in _INNER_REQUEST:
        inner = members(fields.get(name))
        _demand_same_model(inner.get("model"), call.model, f"{name}.model")
        _refuse_caches(inner)
    if given(fields, "contents") is None and not any(given(fields, name) for name in _INNER_REQUEST):
        raise missing("contents")
    return Ask(
        model=call.model,
        has_streamed_form=False,
        is_charged=False,
        fields=fields,
        message_count=_contents(fields),
        target=call,
    )


def parse_embed(path: str, query: str, body: bytes) -> Ask:
    """One text (`content`) or many (`requests`)."""
    call, fields = _call_and_fields(path, query, body)
    name = "requests" if call.verb.startswith("batch") else "content"
    if given(fields, name) is None:
        raise missing(name)
    count = counted(fields, "requests")
    for number, entry in enumerate(items(fields.get("requests")) or ()):
        _demand_same_model(members(entry).get("model"), call.model, f"requests[{number}].model")
    return Ask(model=call.model, has_streamed_form=False, fields=fields, message_count=count, target=call)


def parse_predict(path: str, query: str, body: bytes) -> Ask:
    """Pictures (`instances` and `parameters`)."""
    call, fields = _call_and_fields(path, query, body)
    if given(fields, "instances") is None:
        raise missing("instances")
    counted(fields, "instances")
    return Ask(model=call.model, fields=fields, is_raw=True, target=call)


def build_request(ask: Ask, *, model: str, overrides: Mapping[str, object]) -> bytes:
    """The body for the upstream. Values that need no change keep the client's own bytes."""
    fields: dict[str, object] = dict(ask.fields)
    if model != ask.model:
        fields.update(_renamed(ask.fields, resource_of(model)))
    fields.update(overrides)
    return msgspec.json.encode(fields)


def _call_and_fields(path: str, query: str, body: bytes) -> tuple[Call, dict[str, msgspec.Raw]]:
    call = read_call(path, query)
    fields = read_top_level(body)
    _demand_same_model(fields.get("model"), call.model, "model")
    return call, fields


def _renamed(fields: Fields, resource: str) -> dict[str, object]:
    """The members that name the model, naming another one."""
    renamed: dict[str, object] = {"model": resource} if "model" in fields else {}
    requests = items(fields.get("requests"))
    if requests is not None:
        renamed["requests"] = [_with_model(entry, resource) for entry in requests]
    for name in _INNER_REQUEST:
        if name in fields:
            renamed[name] = _with_model(fields[name], resource)
    return renamed


def _with_model(raw: msgspec.Raw, resource: str) -> object:
    found = members(raw)
    return {**found, "model": resource} if "model" in found else raw


def _demand_same_model(raw: msgspec.Raw | None, model: str, param: str) -> None:
    if raw is not None and bytes(raw) != b"null" and text(raw) not in (model, resource_of(model)):
        raise Refusal(
            400, f"'{param}' must be the model that the path names.", code="invalid_value", param=param
        )


def _refuse_caches(fields: Fields) -> None:
    """A cache belongs to the operator's account, and nobody remembers which tenant made it."""
    for name in _CACHES:
        if given(fields, name) is not None:
            message = f"'{name}' is not supported: send the contents themselves, equal beginnings are cached."
            raise Refusal(400, message, code="unsupported_parameter", param=name)


def _contents(fields: Fields) -> int:
    """How many; a lone one may stand without its list."""
    raw = given(fields, "contents")
    if raw is None:
        return 0
    if bytes(raw)[:1] == b"{":
        return 1
    if bytes(raw)[:1] != b"[":
        raise invalid("contents", "a list of objects")
    return counted(fields, "contents")


def _parameter(part: str) -> str:
    return unquote_plus(part.partition("=")[0])


def _quoted(resource: str) -> str:
    return quote(resource, safe="/:@!$&'()*+,;=~")
