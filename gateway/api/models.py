"""`GET /v1/models` and `/v1/models/{id}`: what this caller may ask for.

In OpenAI's form, and in Anthropic's or Google's for whoever sends what their SDKs send.
"""

import time

import orjson
from django.http import HttpRequest, HttpResponse
from ninja import Router

from gateway.api import gemini
from gateway.api.query import Query, count_asked, query_of
from gateway.api.visible_models import visible_models
from gateway.front.request import client_request
from gateway.relay_flow import unknown_model
from relay.core.dialects.anthropic import ANTHROPIC
from relay.core.errors import Refusal

router = Router()

_STARTED_AT = int(time.time())
_UNKNOWN_DATE = "1970-01-01T00:00:00Z"
"""What Anthropic has for models whose release date is unknown."""
_MAX_LIMIT = 1000


def _is_anthropics(request: HttpRequest) -> bool:
    return b"anthropic-version" in client_request(request).wire


def _is_googles(request: HttpRequest) -> bool:
    wire = client_request(request).wire
    return b"x-goog-api-client" in wire or b"x-goog-api-key" in wire


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
    query = query_of(request)
    if after := query.get("after_id"):
        models = [model for model in models if model > after[-1]]
    before = query.get("before_id")
    if before:
        models = [model for model in models if model < before[-1]]
    limit = _limit(query) or len(models)
    page = models[-limit:] if before else models[:limit]
    return {
        "data": list(map(_anthropic_entry, page)),
        "has_more": len(page) < len(models),
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }


def _limit(query: Query) -> int | None:
    limit = count_asked(query, "limit")
    if limit is not None and limit > _MAX_LIMIT:
        raise Refusal(400, f"'limit' must be at most {_MAX_LIMIT}.", code="invalid_value", param="limit")
    return limit


def _json(value: object) -> HttpResponse:
    return HttpResponse(orjson.dumps(value), content_type="application/json")


@router.get("/v1/models")
async def model_list(request: HttpRequest) -> HttpResponse:
    if _is_anthropics(request):
        return _json(_anthropic_page(request, visible_models(request, ANTHROPIC.name)))
    if _is_googles(request):
        return gemini.model_page(request)
    return _json({"object": "list", "data": [_entry(model) for model in visible_models(request)]})


@router.get("/v1/models/{path:model_id}")
async def model_detail(request: HttpRequest, model_id: str) -> HttpResponse:
    """The id may hold slashes, encoded or not."""
    if _is_googles(request):
        return gemini.one_model(request, model_id)
    is_anthropics = _is_anthropics(request)
    models = visible_models(request, ANTHROPIC.name if is_anthropics else None)
    if model_id not in models:
        raise unknown_model(model_id, models)
    return _json(_anthropic_entry(model_id) if is_anthropics else _entry(model_id))
