"""Every environment setting: name, type, default and meaning, in one table that refuses bad input.

docs/settings.md is made from this table and from `channels_admin.flags`; a test keeps them equal.
Runtime flags (values that the console can change) are not here but in `channels_admin.flags`.
"""

import ipaddress
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

BASE_DIR = Path(__file__).resolve().parents[2]

LOOPBACK_NETWORKS = "127.0.0.0/8,::1/128"


def _split(value: object) -> object:
    """Comma-separated text → tuple of trimmed, non-empty parts."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Networks = Annotated[
    tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...], NoDecode, BeforeValidator(_split)
]


class Environment(BaseSettings):
    model_config = SettingsConfigDict(case_sensitive=True, extra="ignore", frozen=True)

    DATABASE_URL: str = Field("", description="PostgreSQL URL. Empty: SQLite in DATA_DIR.")
    REDIS_URL: str = Field("", description="Redis URL. Empty: one process with an in-process store.")
    CELERY_BROKER_URL: str = Field("", description="Broker of the workers. Empty: REDIS_URL.")
    SECRET_KEY: str = Field("", description="Django's signing key. Empty: made once, kept in DATA_DIR.")
    SEALING_KEYS: Words = Field(
        (),
        description="Keys that seal upstream credentials, `id:secret`, newest first. "
        "Empty: made once, kept in DATA_DIR.",
    )
    ALLOWED_HOSTS: Words = Field(
        ("localhost", "127.0.0.1", "[::1]"), description="Host names of the console."
    )
    CSRF_TRUSTED_ORIGINS: Words = Field((), description="Origins of the console behind a TLS proxy.")
    TRUSTED_PROXIES: Networks = Field(
        (), description="Networks whose `X-Forwarded-For` names the client. Empty: the socket does."
    )
    CORS_ORIGINS: Words = Field((), description="Browser origins that may call /v1; `*` for any.")
    UPSTREAM_ALLOWED_PRIVATE_NETS: Networks | None = Field(
        None,
        description="Private networks that channel URLs may name. Unset: loopback in the embedded "
        "default, none with DATABASE_URL or REDIS_URL.",
    )
    PINNED_FLAGS: Words = Field((), description="Runtime flags fixed by the environment.")
    MAX_BODY_BYTES: int = Field(64 * 1024 * 1024, ge=1024, description="Largest request body, bytes.")
    SSE_MAX_EVENT_BYTES: int = Field(
        32 * 1024 * 1024, ge=1024, description="Largest single event of a stream, bytes."
    )
    OUTAGE_SPEND_CAP: float = Field(
        0.0, ge=0, description="USD a process may admit per tenant while the store is down."
    )
    SHUTDOWN_GRACE_SECONDS: float = Field(60.0, ge=0, description="How long running streams may drain.")
    READY_DELAY_SECONDS: float = Field(
        5.0, ge=0, description="From SIGTERM (readiness false) to closing the listener."
    )
    DATA_DIR: Path = Field(BASE_DIR / "var", description="Embedded database, generated keys, spool.")
    LOG_LEVEL: str = Field(
        "INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="DEBUG, INFO, WARNING or ERROR."
    )
    METRICS_TOKEN: str = Field("", description="Bearer token of /metrics. Empty: there is no /metrics.")
    SECURE_COOKIES: bool = Field(
        default=False, description="Console cookies over HTTPS only. Set it behind TLS."
    )

    @property
    def is_embedded(self) -> bool:
        """Nothing outside this process is used."""
        return not self.DATABASE_URL and not self.REDIS_URL


ENV = Environment()
