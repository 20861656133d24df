"""Logging: one line a record on stderr. Request lines are not logged: each request is a record."""

import logging
from typing import Any

from gateway.settings.environment import ENV

_SHOWN_CHARACTERS = 200


class Short(logging.Filter):
    """For what strangers can provoke at will: one line of bounded length, no traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = record.getMessage()[:_SHOWN_CHARACTERS], None
        record.exc_info = record.exc_text = None
        return True


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "filters": {"short": {"()": Short}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": ENV.LOG_LEVEL},
    "loggers": {
        # aiohttp and httpx log URLs; credentials can stand in a query.
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        "aiohttp": {"level": "WARNING"},
        # A line for each form that cannot be read, from whoever it comes.
        "python_multipart": {"level": "ERROR"},
        "django.request": {"level": "ERROR"},
        # Each request with a foreign Host, from whoever it comes.
        "django.security.DisallowedHost": {"filters": ["short"]},
        # A line for each nudge, up to twenty a second in the embedded mode.
        "celery.app.trace": {"level": "WARNING"},
    },
}
