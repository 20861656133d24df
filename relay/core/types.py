"""Frozen values that cross layers: what is configured and what a client asked.

Durations are seconds and end in `_s` (persisted columns end in `_seconds`). Instances are shared by
all requests of a process: nothing here may be changed after it was built.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Protocol


class StreamMode(StrEnum):
    """`stream_policy`: what the upstream gets, whatever the client asked."""

    AS_ASKED = ""
    FORCE_STREAM = "force_stream"
    FORCE_NON_STREAM = "force_non_stream"


class DisconnectPolicy(StrEnum):
    CANCEL = "cancel"
    DRAIN = "drain"


class KeyMode(StrEnum):
    """How a channel picks among its upstream keys."""

    ROUND_ROBIN = "round_robin"
    RANDOM = "random"


class Secret(Protocol):
    """A credential that is unsealed on first use and never shows in a repr."""

    def reveal(self) -> str:
        """Raises `relay.core.errors.SecretUnavailable`."""
        ...


@dataclass(frozen=True, slots=True)
class PlainSecret:
    """A secret that was never sealed: command-line probes and tests."""

    value: str = field(repr=False)

    def reveal(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class StreamPolicy:
    """A named set of stream timers. What each does, and what else ends an attempt: docs/timers.md."""

    name: str = "default"
    stream_policy: StreamMode = StreamMode.AS_ASKED
    header_timeout_s: float = 0.0
    """0 = the runtime flag `OUTBOUND_HEADER_TIMEOUT_SECONDS`."""
    first_event_timeout_s: float = 600.0
    """0 = off."""
    idle_timeout_s: float = 300.0
    image_idle_timeout_s: float = 900.0
    event_idle_timeout_s: float = 900.0
    """0 = off."""
    total_timeout_s: float = 14_400.0
    """0 = off."""
    early_commit_s: float | None = None
    """0 = off; None = 15 under `force_non_stream`, else off."""
    preamble_hold_s: float = 1.0
    """0 = forward preamble events at once; at most 3."""
    tool_call_guard: bool = False
    disconnect_policy: DisconnectPolicy = DisconnectPolicy.CANCEL


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What may run at once, and start within a minute, over all processes of a store; 0 = no limit."""

    requests: int = 0
    streams: int = 0
    requests_per_minute: int = 0
    tokens_per_minute: int = 0


NO_CEILINGS = Ceilings()


@dataclass(frozen=True, slots=True)
class UpstreamKey:
    """A channel's credential. `label` is prefix…suffix, safe to show."""

    id: int
    label: str
    secret: Secret
    ceilings: Ceilings = NO_CEILINGS


@dataclass(frozen=True, slots=True)
class Channel:
    """A configured upstream route, enabled and with its enabled keys only.

    models: exact names, or patterns with `*`. model_mapping: asked model → model sent upstream.
    base_url: without trailing slash and without a final `/v1`.
    """

    id: int
    name: str
    kind: str
    base_url: str
    models: tuple[str, ...]
    keys: tuple[UpstreamKey, ...]
    model_mapping: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    weight: int = 1
    groups: frozenset[str] = frozenset({"default"})
    key_mode: KeyMode = KeyMode.ROUND_ROBIN
    policy: StreamPolicy = StreamPolicy()
    connect_timeout_s: float = 10.0
    non_stream_timeout_s: float = 0.0
    """0 = the runtime flag `NON_STREAM_TIMEOUT_SECONDS`."""
    request_stream_usage: bool = True
    header_overrides: Mapping[str, str] = field(default_factory=dict)
    parameter_overrides: Mapping[str, object] = field(default_factory=dict)
    """Top-level JSON fields set on every request, after model mapping."""
    proxy_url: str = ""
    charge_input_on_leave: bool = False
    """The prompt is charged when the client leaves before anything arrived."""
    ceilings: Ceilings = NO_CEILINGS


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """What belongs to a model rather than to a channel. model: a name or a pattern with `*`.

    group: a tenant group, empty for all. policy: instead of the channel's. fallback_models: tried in
    order after every candidate of the asked model failed.
    """

    id: int
    model: str
    group: str = ""
    is_artefact: bool = False
    hedge_after_s: float = 0.0
    """0 = never."""
    degrade_to_non_stream: bool = False
    fallback_models: tuple[str, ...] = ()
    policy: StreamPolicy | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: one active API key of one active tenant."""

    api_key_id: int
    tenant_id: int
    tenant_name: str
    group: str
    allowed_models: tuple[str, ...] = ()
    """Names or patterns with `*`; empty = all."""
    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    """Empty = all."""
    expires_at: datetime.datetime | None = None
    ceilings: Ceilings = NO_CEILINGS
    """Of the API key."""
    tenant_ceilings: Ceilings = NO_CEILINGS


@dataclass(frozen=True, slots=True)
class RelayFlags:
    """The runtime flags that the stream runtime obeys, re-read before each further attempt."""

    header_timeout_s: float = 60.0
    image_header_timeout_s: float = 300.0
    non_stream_timeout_s: float = 300.0
    channel_retry_times: int = 1
    retry_times: int = 2
    retry_budget_s: float = 300.0
    images_failover: bool = False
    images_failover_ambiguous: bool = False
    """Also after 500, 502 and other server errors."""
    images_failover_uncertain: bool = False
    """Also where nobody knows whether the picture was drawn; includes the server errors."""
    hedge_max_share: float = 0.1
    hedge_max_running: int = 50
