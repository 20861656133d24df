"""One relay request end to end. Read this first.

    server → handler → `authenticate` → **relay** → engine → (attempts) → pump → `RelayAnswer` → client
                                                     └→ recorder (courier) → store → worker → rows

`relay` takes one configuration snapshot for the whole request, decides who may serve it, starts the
engine and returns as soon as the answer has begun. Refused here = nothing was sent upstream. What was asked
before under the same `Idempotency-Key` does not run again (`gateway.admission.idempotency`).
"""

import asyncio
import hmac
from collections.abc import Sequence
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from gateway import wiring
from gateway.api import errors
from gateway.front.request import ClientRequest, client_request
from gateway.responses import RelayAnswer
from relay.core import failover
from relay.core.dialects.base import Ask, Dialect, ReadsForms, ReadsTargets
from relay.core.end_reasons import EndReason
from relay.core.errors import Refusal
from relay.core.headers import strip_credentials
from relay.core.multipart import is_form
from relay.core.path_families import (
    classify,
    is_image,
    is_object_read,
    is_replayable,
    is_withheld,
    normalise_path,
)
from relay.core.request import RelayRequest
from relay.core.routes import RouteIndex
from relay.core.selection import close_names, is_model_allowed, listed_models, order
from relay.core.types import Caller, Channel, UpstreamKey
from relay.core.upstream_kinds import speaks

MAX_TARGET_BYTES = 32 * 1024
"""Of path and query: half of what a URL may have. The channel's base comes before it."""


async def relay(request: HttpRequest, dialect: Dialect) -> HttpResponseBase:
    """The answer, begun. Raises Refusal when the request may not pass or no attempt succeeded."""
    parts = wiring.current()
    http = client_request(request)
    caller = caller_of(request)
    parts.overload.check(is_stream=False)
    asked = await _asked(http, caller, dialect, parts.configuration.current.channels.routes)
    if asked.ask.stream:
        parts.overload.check(is_stream=True)
    return await parts.idempotency.once(asked, lambda: _run(request, parts, asked))


async def _run(request: HttpRequest, parts: "wiring.Wiring", asked: RelayRequest) -> HttpResponseBase:
    """The answer of this very request, begun; a refusal after it ran is rendered. Raises Refusal before."""
    fallbacks = _fallbacks(parts, asked)
    candidates = _candidates(parts, asked, has_fallbacks=bool(fallbacks))
    first = await _admit(parts, asked, candidates, fallbacks)
    running = parts.engine.start(asked, candidates, first=first, fallbacks=fallbacks)
    parts.revocation.begun(asked.caller)
    try:
        head = await running.head()
    except asyncio.CancelledError:
        # The view is cancelled when the client leaves before there is an answer, and at shutdown.
        running.stop(EndReason.CLIENT_DISCONNECTED)
        if running.begun_with is not None:
            parts.idempotency.missed(asked.id, running.begun_with)
        running.client_done(consumed=False)
        await running.join()
        raise
    except Refusal as refusal:
        response: HttpResponseBase = errors.render(request, refusal)
    else:
        response = RelayAnswer(head, running)
    response["X-Relay-Attempts"] = str(running.attempts)
    if running.fallback_model:
        response["X-Relay-Model"] = running.fallback_model
    return response


async def _admit(
    parts: "wiring.Wiring",
    asked: RelayRequest,
    candidates: Sequence[Channel],
    fallbacks: Sequence[failover.Candidate],
) -> tuple[Channel, UpstreamKey]:
    """Takes what the request holds while it runs; the channel and key to begin with.

    Raises Refusal 402, 429, 503.
    """
    choices = parts.engine.first_choices(candidates, fallbacks)
    if not choices:
        raise _nothing_available()
    return await parts.admissions.admit(asked, choices, parts.configuration.current)


def caller_of(request: HttpRequest) -> Caller:
    caller = getattr(request, "auth", None)
    if not isinstance(caller, Caller):
        raise TypeError("the route is not authenticated")
    return caller


async def _asked(http: ClientRequest, caller: Caller, dialect: Dialect, routes: RouteIndex) -> RelayRequest:
    """What the client asks, parsed once; the body is read last, after all that the head tells.

    Raises Refusal 404 (paths that never pass), 415, 413 and 400 (bodies).
    """
    method = http.method or "GET"
    path = _path(method, http.raw_path)
    if http.wire.get(b"content-encoding", b"identity").lower() != b"identity":
        # The header does not pass, so the bytes must not either.
        message = "Compressed request bodies are not accepted."
        raise Refusal(415, message, code="unsupported_content_encoding")
    query = http.scope["query_string"]
    if len(http.raw_path) + len(query) > MAX_TARGET_BYTES:
        raise Refusal(414, "The request's URL is too long.", code="url_too_long")
    family = classify(path)
    await http.read_body()
    query = strip_credentials(query.decode("ascii", "replace"))
    ask = _parsed(http, dialect, path, query)
    idempotency_key = _header(http, b"idempotency-key")
    route = routes.find(caller.group, ask.model)
    return RelayRequest(
        id=http.request_id,
        caller=caller,
        method=method,
        path=path,
        query=query,
        headers=tuple(http.relay_headers),
        body=http.body,
        family=family,
        dialect=dialect,
        ask=ask,
        is_replayable=is_replayable(
            family,
            method,
            idempotency_key=idempotency_key,
            artefact=route is not None and route.is_artefact,
        ),
        is_image=is_image(family),
        received_at=http.received_at,
        upstream_idempotency_key=_shared_key(caller, idempotency_key),
        client_request_id=http.client_request_id,
        route=route,
    )


def _parsed(http: ClientRequest, dialect: Dialect, path: str, query: str) -> Ask:
    if isinstance(dialect, ReadsTargets):
        return dialect.parse_call(path, query, http.body)
    content_type = http.wire.get(b"content-type", b"").decode("latin-1")
    if is_form(content_type) and isinstance(dialect, ReadsForms):
        return dialect.parse_form(http.body, content_type)
    return dialect.parse_request(http.body)


@lru_cache(maxsize=1024)
def _path(method: str, raw_path: bytes) -> str:
    """The one spelling of the path that is routed and forwarded. Raises Refusal 404 where it may not pass."""
    path = normalise_path(raw_path.decode("ascii", "replace"))
    if path is None or is_withheld(path) or is_object_read(method, path):
        raise Refusal(404, "Unknown request URL.", code="unknown_url")
    return path


def _candidates(parts: "wiring.Wiring", asked: RelayRequest, *, has_fallbacks: bool) -> list[Channel]:
    """Channels that may serve the request, in the order they will be tried. Raises Refusal 404, 403, 503.

    None where all that list the model are out and other models may stand in.
    """
    config, caller = parts.configuration.current, asked.caller
    index, ask, dialect = config.channels.index, asked.ask, asked.dialect.name
    is_allowed = is_model_allowed(caller.allowed_models, ask.model)
    if not is_allowed and not ask.model:  # it may stand in a form, a query or a path: nobody has checked it
        message = "This API key is limited to certain models, and this request names none that can be read."
        raise Refusal(403, message, kind="permission_error", code="model_required", param="model")
    tiers = index.tiers(caller.group, ask.model, dialect)
    if tiers and is_allowed:
        return order(tiers, parts.chance)
    if is_allowed and index.is_listed(caller.group, ask.model, dialect):
        if has_fallbacks:
            return []
        raise _nothing_available()
    if not ask.model:
        message = "No channel serves requests without a model."
        raise Refusal(404, message, code="unknown_url")
    if is_allowed and index.is_listed(caller.group, ask.model):
        raise _other_dialect(ask.model)
    channels = [c for c in config.channels.channels.values() if speaks(c.kind, dialect)]
    models = listed_models(channels, caller.group, caller.allowed_models, config.priced_models(caller.group))
    raise unknown_model(ask.model, models)


def _fallbacks(parts: "wiring.Wiring", asked: RelayRequest) -> list[failover.Candidate]:
    """Channels for the models that the route names for the case that all candidates fail."""
    if asked.route is None or not asked.is_replayable:
        return []
    index, group = parts.configuration.current.channels.index, asked.caller.group
    return [
        failover.Candidate(channel, model)
        for model in asked.route.fallback_models
        if model != asked.ask.model
        for channel in order(index.tiers(group, model, asked.dialect.name), parts.chance)
    ]


def unknown_model(model: str, models: list[str]) -> Refusal:
    """404 that names models the caller may have meant."""
    close = close_names(model, models)
    hint = f" Did you mean {', '.join(close)}?" if close else ""
    message = f"The model `{model[:200]}` does not exist or you do not have access to it.{hint}"
    return Refusal(404, message, code="model_not_found", param="model")


def _other_dialect(model: str) -> Refusal:
    """404 for a model whose channels are all asked in another API's format."""
    message = f"The model `{model[:200]}` is not available on this endpoint, only in another API's format."
    return Refusal(404, message, code="model_not_found", param="model")


def _shared_key(caller: Caller, idempotency_key: str | None) -> str | None:
    """What the upstream gets for the tenant's Idempotency-Key.

    All tenants share one upstream account, so two that choose the same value must not meet there.
    """
    if not idempotency_key:
        return None
    message = f"{caller.tenant_id}\0{caller.api_key_id}\0{idempotency_key}"
    return hmac.new(settings.SECRET_KEY.encode(), message.encode(), "sha256").hexdigest()


def _header(http: ClientRequest, name: bytes) -> str | None:
    for found, value in http.relay_headers:
        if found == name:
            return value.decode("latin-1").strip() or None
    return None


def _nothing_available() -> Refusal:
    message = "No channel that serves this model is available right now."
    return Refusal(503, message, kind="api_error", code="no_channel_available", retry_after_s=30)
