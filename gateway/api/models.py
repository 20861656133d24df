"""`GET /v1/models` and `/v1/models/{id}`: what this caller may ask for."""

import time

import orjson
from django.http import HttpRequest, HttpResponse
from ninja import Router

from gateway import wiring
from gateway.relay_flow import caller_of, unknown_model
from relay.core.selection import listed_models

router = Router()

_STARTED_AT = int(time.time())


def _visible_models(request: HttpRequest) -> list[str]:
    caller = caller_of(request)
    config = wiring.current().configuration.current
    channels = config.channels.channels.values()
    return listed_models(channels, caller.group, caller.allowed_models, config.priced_models)


def _entry(model: str) -> dict[str, object]:
    return {"id": model, "object": "model", "created": _STARTED_AT, "owned_by": "sluice"}


def _json(value: object) -> HttpResponse:
    return HttpResponse(orjson.dumps(value), content_type="application/json")


@router.get("/v1/models")
async def model_list(request: HttpRequest) -> HttpResponse:
    return _json({"object": "list", "data": [_entry(model) for model in _visible_models(request)]})


@router.get("/v1/models/{path:model_id}")
async def model_detail(request: HttpRequest, model_id: str) -> HttpResponse:
    """The id may hold slashes, encoded or not."""
    models = _visible_models(request)
    if model_id not in models:
        raise unknown_model(model_id, models)
    return _json(_entry(model_id))
