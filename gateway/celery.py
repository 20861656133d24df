"""The Celery app: `celery -A gateway.celery worker` (and `beat`)."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

app = Celery("sluice")
# "Current app" is kept per thread: other threads would get a default one, with a broker of its own.
app.set_default()
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["billing", "gateway"])
