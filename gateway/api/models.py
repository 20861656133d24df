"""`GET /v1/models` and `/v1/models/{id}`: what this caller may ask for.

In OpenAI's form, and in Anthropic's for whoever sends `anthropic-version`, as its SDKs do.
"""

import time
from urllib.parse import parse_qs

import orjson
from django.http import HttpRequest, HttpResponse
from ninja import Router

from gateway import wiring
from gateway.front.request import client_request
from gateway.relay_flow import caller_of, unknown_model
from relay.core.dialects.anthropic import ANTHROPIC
from relay.core.errors import Refusal
from relay.core.selection import listed_models
from relay.core.upstream_kinds import speaks

router = Router()

_STARTED_AT = int(time.time())
_UNKNOWN_DATE = "1970-01-01T00:00:00Z"
"""What Anthropic has for models whose release date is unknown."""
_MAX_LIMIT = 1000


def _visible_models(request: HttpRequest, dialect: str | None = None) -> list[str]:
    """dialect: only models that can be asked in it."""
    caller = caller_of(request)
    config = wiring.current().configuration.current
    known = config.channels.channels.values()
    channels = [channel for channel in known if dialect is None or speaks(channel.kind, dialect)]
    return listed_models(channels, caller.group, caller.allowed_models, config.priced_models(caller.group))


def _is_anthropics(request: HttpRequest) -> bool:
    return b"anthropic-version" in client_request(request).wire


def _entry(model: str) -> dict[str, object]:
    return {"id": model, "object": "model", "created": _STARTED_AT, "owned_by": "sluice"}


def _anthropic_entry(model: str) -> dict[str, object]:
    return {
        "type": "model",
        "id": model,
        "display_name": model,
        "created_at": _UNKNOWN_DATE,
        "lifecycle": "active",
    }


def _anthropic_page(request: HttpRequest, models: list[str]) -> dict[str, object]:
    """All, or the page that `limit` (1 to 1000), `after_id` and `before_id` ask for. Raises Refusal 400."""
    query = parse_qs(client_request(request).scope["query_string"].decode())
    if after := query.get("after_id"):
        models = [model for model in models if model > after[-1]]
    before = query.get("before_id")
    if before:
        models = [model for model in models if model < before[-1]]
    limit = _limit(query.get("limit")) or len(models)
    page = models[-limit:] if before else models[:limit]
    return {
        "data": list(map(_anthropic_entry, page)),
        "has_more": len(page) < len(models),
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }


def _limit(given: list[str] | None) -> int | None:
    if given is None:
        return None
    text = given[-1]
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:5]) <= _MAX_LIMIT):
        raise Refusal(400, f"'limit' must be a number from 1 to {_MAX_LIMIT}.", param="limit")
    return int(text)


def _json(value: object) -> HttpResponse:
    return HttpResponse(orjson.dumps(value), content_type="application/json")


@router.get("/v1/models")
async def model_list(request: HttpRequest) -> HttpResponse:
    if _is_anthropics(request):
        return _json(_anthropic_page(request, _visible_models(request, ANTHROPIC.name)))
    return _json({"object": "list", "data": [_entry(model) for model in _visible_models(request)]})


@router.get("/v1/models/{path:model_id}")
async def model_detail(request: HttpRequest, model_id: str) -> HttpResponse:
    """The id may hold slashes, encoded or not."""
    is_anthropics = _is_anthropics(request)
    models = _visible_models(request, ANTHROPIC.name if is_anthropics else None)
    if model_id not in models:
        raise unknown_model(model_id, models)
    return _json(_anthropic_entry(model_id) if is_anthropics else _entry(model_id))
