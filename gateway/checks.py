"""Deploy mistakes as system checks, each with an id. `manage.py check` and `make check` run them.

`gateway.E…` refuses to start, `gateway.W…` warns; those that only matter in production run with
`check --deploy`. The settings themselves refuse what is not even readable.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register  # noqa: A004  Django's name

from gateway.settings.environment import ENV

Apps = Sequence[AppConfig] | None


@register(Tags.compatibility)
def check_server(app_configs: Apps, **_kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001  Django's signature
    """Daphne takes whatever is written to it: one client that does not read eats the memory."""
    is_daphne = "runserver" in sys.argv[:2] or os.path.basename(sys.argv[0]) == "daphne"  # noqa: PTH119  a name
    if not is_daphne or ENV.is_embedded:
        return []
    return [
        Warning(
            "The development server is running with DATABASE_URL or REDIS_URL set.",
            hint="It has no write deadlines and no drain. Serve with `manage.py serve`.",
            id="gateway.W001",
        )
    ]


@register(Tags.compatibility)
def check_cors_origins(app_configs: Apps, **_kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001  see above
    """An origin is scheme://host[:port]: anything else never equals what a browser sends."""
    return [
        Error(
            f"CORS_ORIGINS names {origin!r}, which is not an origin.",
            hint="Write scheme://host or scheme://host:port, without a path or a trailing slash, or `*`.",
            id="gateway.E001",
        )
        for origin in ENV.CORS_ORIGINS
        if origin != "*" and not _is_origin(origin)
    ]


@register(Tags.database)
def check_no_atomic_requests(app_configs: Apps, **_kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001  see above
    if not any(database.get("ATOMIC_REQUESTS") for database in settings.DATABASES.values()):
        return []
    return [Error("ATOMIC_REQUESTS does not work with the relay's async views.", id="gateway.E002")]


@register(Tags.compatibility)
def check_data_dir(app_configs: Apps, **_kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001  see above
    if os.access(ENV.DATA_DIR, os.W_OK | os.X_OK):
        return []
    return [
        Error(
            f"DATA_DIR {ENV.DATA_DIR} is not a directory this user can write to.",
            hint="Database, generated keys or the shutdown spool are kept there.",
            id="gateway.E003",
        )
    ]


@register(Tags.security)
def check_trusted_proxies(app_configs: Apps, **_kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001  see above
    return [
        Warning(
            f"TRUSTED_PROXIES contains {network}: everybody may name any address as theirs.",
            hint="Name your proxies' own networks. IP allow-lists of API keys rest on this.",
            id="gateway.W002",
        )
        for network in ENV.TRUSTED_PROXIES
        if network.prefixlen == 0
    ]


@register(Tags.security, deploy=True)
def check_kept_secrets(app_configs: Apps, **_kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001  see above
    """Keys made on one machine's disk do not open what another machine sealed in the shared database."""
    if not ENV.DATABASE_URL:
        return []
    hint = "Machines that share a database must share it too. Set it in the environment."
    return [
        Warning(
            f"{name} is not set and was made in DATA_DIR, but DATABASE_URL is set.", hint=hint, id=check_id
        )
        for name, value, check_id in (
            ("SECRET_KEY", ENV.SECRET_KEY, "gateway.W003"),
            ("SEALING_KEYS", ENV.SEALING_KEYS, "gateway.W004"),
        )
        if not value
    ]


@register(Tags.security, deploy=True)
def check_debug(app_configs: Apps, **_kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001  see above
    if not settings.DEBUG:
        return []
    return [Error("DEBUG shows settings, queries and request contents to strangers.", id="gateway.E004")]


@register(Tags.security, deploy=True)
def check_cookies(app_configs: Apps, **_kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001  see above
    if ENV.SECURE_COOKIES:
        return []
    return [
        Warning(
            "SECURE_COOKIES is off: console sessions travel over plain HTTP.",
            hint="Put the console behind TLS and set SECURE_COOKIES=true.",
            id="gateway.W005",
        )
    ]


def _is_origin(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme and parts.netloc) and text == f"{parts.scheme}://{parts.netloc}"
