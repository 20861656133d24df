"""URLs of the relay: what the slim handler serves. The console's are in `gateway.urls`."""

from django.urls import path

from gateway.api import api
from gateway.front import health
from gateway.front.metrics import metrics

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics),
    path("", api.urls),
]
