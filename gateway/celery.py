"""The Celery app: `celery -A gateway.celery worker` (and `beat`)."""

import os

from celery import Celery
from kombu import Queue

from billing.schedule import REGULAR_QUEUE

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

app = Celery("sluice", task_cls="gateway.celery_requests:SteadyTask")
# "Current app" is kept per thread: other threads would get a default one, with a broker of its own.
app.set_default()
app.config_from_object("django.conf:settings", namespace="CELERY")
# Regular jobs do not stand in line behind nudges; a worker serves both queues unless `-Q` says otherwise.
app.conf.task_queues = (Queue("celery"), Queue(REGULAR_QUEUE))
app.autodiscover_tasks(["billing", "gateway"])
