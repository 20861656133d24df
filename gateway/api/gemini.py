"""Gemini's API: calls of models (`models/M:generateContent` and other verbs), and its lists of models.

A call stands under `/v1` as well: google-genai asks there unless told otherwise.
"""

import orjson
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import register_converter
from django.urls.converters import StringConverter
from ninja import Router

from gateway.api.query import count_asked, query_of
from gateway.api.visible_models import visible_models
from gateway.front.request import client_request
from gateway.relay_flow import relay, unknown_model
from relay.core.dialects.gemini import GEMINI, VERBS, dialect_of

router = Router()

_CREATING_VERBS = ("predictLongRunning", "batchGenerateContent", "asyncBatchEmbedContent")
"""Known, so that they are told from a model's name, and refused."""
_METHODS = ["generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents"]
_DEFAULT_PAGE, _LARGEST_PAGE = 50, 1000


class CallConverter(StringConverter):
    """A model's name, which may hold slashes and colons, and a verb behind the last colon."""

    regex = f"[^?]+:(?:{'|'.join((*VERBS, *_CREATING_VERBS))})"


register_converter(CallConverter, "call")


@router.post("/v1beta/models/{call:call}")
@router.post("/v1/models/{call:call}")
@router.post("/v1beta/tunedModels/{call:call}")
async def model_call(request: HttpRequest, call: str) -> HttpResponseBase:
    """Relays the raw body: unknown fields pass, nothing is parsed twice."""
    query = client_request(request).scope["query_string"].decode("ascii", "replace")
    return await relay(request, dialect_of(call.rpartition(":")[2], query))


@router.get("/v1beta/models")
async def model_list(request: HttpRequest) -> HttpResponse:
    return model_page(request)


@router.get("/v1beta/models/{path:model_id}")
async def model_detail(request: HttpRequest, model_id: str) -> HttpResponse:
    return one_model(request, model_id)


def model_page(request: HttpRequest) -> HttpResponse:
    """The page that `pageSize` (1000 at most) and `pageToken` (a model's name) ask for.

    Raises Refusal 400 for a size below 1.
    """
    query = query_of(request)
    models = visible_models(request, GEMINI.name)
    if token := query.get("pageToken"):
        models = [model for model in models if model > token[-1]]
    size = min(count_asked(query, "pageSize") or _DEFAULT_PAGE, _LARGEST_PAGE)
    page: dict[str, object] = {"models": list(map(_entry, models[:size]))}
    if len(models) > size:
        page["nextPageToken"] = models[size - 1]
    return _json(page)


def one_model(request: HttpRequest, model_id: str) -> HttpResponse:
    """The id may hold slashes, encoded or not."""
    models = visible_models(request, GEMINI.name)
    if model_id not in models:
        raise unknown_model(model_id, models)
    return _json(_entry(model_id))


def _entry(model: str) -> dict[str, object]:
    """Limits are not known here, and versions are the upstream's."""
    return {
        "name": model if model.startswith("tunedModels/") else f"models/{model}",
        "version": "",
        "displayName": model,
        "supportedGenerationMethods": _METHODS,
    }


def _json(value: object) -> HttpResponse:
    return HttpResponse(orjson.dumps(value), content_type="application/json")
