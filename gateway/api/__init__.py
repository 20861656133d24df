"""The tenants' API: one ninja API, one thin module per endpoint family. Order matters: the catch-all is last.

Adding an endpoint: a module here with a `Router`, a line below, a row in the access tests.
"""

from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI

from gateway.api import (
    audio,
    chat,
    completions,
    errors,
    gemini,
    images,
    messages,
    models,
    passthrough,
    requests,
    responses,
    usage,
    vectors,
)
from gateway.api.auth import authenticate

_UNUSED = HttpResponse()


class RelayAPI(NinjaAPI):
    """Every view here answers with a whole response of its own."""

    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002  ninja's signature
        """Ninja makes a response a request for views that want to set headers on it; ours do not."""
        return _UNUSED


api = RelayAPI(
    title="Sluice",
    version="1",
    urls_namespace="relay",
    docs_url=None,
    openapi_url=None,
    auth=authenticate,
)
errors.install(api)
api.add_router("", chat.router)
api.add_router("", responses.router)
api.add_router("", completions.router)
api.add_router("", vectors.router)
api.add_router("", images.router)
api.add_router("", audio.router)
api.add_router("", messages.router)
api.add_router("", gemini.router)
api.add_router("", models.router)
api.add_router("", requests.router)
api.add_router("", usage.router)
api.add_router("", passthrough.router)
