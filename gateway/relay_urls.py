"""URLs of the relay: what the slim handler serves. The console's are in `gateway.urls`."""

from django.urls import path

from gateway import health
from gateway.api import api

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("", api.urls),
]
