"""Logging: one line a record on stderr. Request lines are not logged: each request is a record."""

from typing import Any

from gateway.settings.environment import ENV

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": ENV.LOG_LEVEL},
    "loggers": {
        # aiohttp and httpx log URLs; credentials can stand in a query.
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        "aiohttp": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
        # A line for each nudge, up to twenty a second in the embedded mode.
        "celery.app.trace": {"level": "WARNING"},
    },
}
