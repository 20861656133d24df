"""The tenants' API: one ninja API, one thin module per endpoint family. Order matters: the catch-all is last.

Adding an endpoint: a module here with a `Router`, a line below, a row in the access tests.
"""

from ninja import NinjaAPI

from gateway.api import chat, errors, models, passthrough, requests
from gateway.api.auth import authenticate

api = NinjaAPI(
    title="Sluice",
    version="1",
    urls_namespace="relay",
    docs_url=None,
    openapi_url=None,
    auth=authenticate,
)
errors.install(api)
api.add_router("", chat.router)
api.add_router("", models.router)
api.add_router("", requests.router)
api.add_router("", passthrough.router)
