"""What a provisioning file may hold. Fields are named as those of the models.

A field that is missing is left as it is; `given` tells which are there, so the defaults here mean nothing.
No database: references and whole rows are judged when the services are called.
"""

import datetime
from collections.abc import Collection
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
)

from billing.core.price_json import image_rates_read, tiers_read
from billing.core.prices import PART_NAMES, PriceParts, PriceTerms, Tier
from channels_admin.statuses import AccessStatus
from relay.core.types import DisconnectPolicy, KeyMode, StreamMode
from relay.core.upstream_kinds import UPSTREAM_KINDS

ALWAYS = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
"""The start of a price that names none."""
BALANCE_MAX_USD = 1_000_000_000


def _no_switch(value: object) -> object:
    # bool is an int: `priority: yes` would quietly become 1.
    if isinstance(value, bool):
        raise ValueError("a number is expected")  # noqa: TRY004  pydantic reports ValueError at the field
    return value


def _moment(value: object) -> object:
    """A plain date is its midnight in UTC; numbers are no moments."""
    if isinstance(value, int | float):
        raise ValueError("a date or time is expected, as 2026-01-31T00:00:00Z")  # noqa: TRY004  see above
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    return value


def _known_kind(value: str) -> str:
    if value not in UPSTREAM_KINDS:
        raise ValueError(f"is none of {', '.join(sorted(UPSTREAM_KINDS))}")
    return value


Whole = Annotated[int, BeforeValidator(_no_switch)]
Seconds = Annotated[float, BeforeValidator(_no_switch), Field(ge=0, allow_inf_nan=False)]
Usd = Annotated[Decimal, BeforeValidator(_no_switch), Field(ge=0, max_digits=15, decimal_places=9)]
Balance = Annotated[
    Decimal, BeforeValidator(_no_switch), Field(ge=0, le=BALANCE_MAX_USD, max_digits=19, decimal_places=9)
]
Multiplier = Annotated[Decimal, BeforeValidator(_no_switch), Field(ge=0, max_digits=12, decimal_places=6)]
Tiers = Annotated[tuple[Tier, ...], PlainValidator(tiers_read)]
ImageRates = Annotated[dict[str, Decimal], PlainValidator(image_rates_read)]
Moment = Annotated[AwareDatetime, BeforeValidator(_moment)]
Kind = Annotated[str, AfterValidator(_known_kind)]


class Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    def given(self, *, without: Collection[str] = ()) -> dict[str, object]:
        """Field → value of the fields that the file names, enums as their plain texts."""
        values = {name: getattr(self, name) for name in self.model_fields_set if name not in without}
        return {name: value.value if isinstance(value, StrEnum) else value for name, value in values.items()}


class StreamPolicyEntry(Entry):
    name: str
    is_default: bool = False
    stream_policy: StreamMode = StreamMode.AS_ASKED
    header_timeout_seconds: Seconds = 0
    first_event_timeout_seconds: Seconds = 0
    idle_timeout_seconds: Seconds = 0
    image_idle_timeout_seconds: Seconds = 0
    event_idle_timeout_seconds: Seconds = 0
    total_timeout_seconds: Seconds = 0
    early_commit_seconds: Seconds | None = None
    preamble_hold_ms: Whole = 0
    tool_call_guard: bool = False
    disconnect_policy: DisconnectPolicy = DisconnectPolicy.CANCEL


class ChannelEntry(Entry):
    """policy: the name of a stream policy; null = the default one."""

    name: str
    kind: Kind = ""
    base_url: str = ""
    proxy_url: str = ""
    models: list[str] = []
    model_mapping: dict[str, str] = {}
    priority: Whole = 0
    weight: Whole = 0
    groups: list[str] = []
    tags: list[str] = []
    keys: list[SecretStr] = []
    policy: str | None = None
    key_mode: KeyMode = KeyMode.ROUND_ROBIN
    connect_timeout_seconds: Seconds = 0
    non_stream_timeout_seconds: Seconds = 0
    request_stream_usage: bool = True
    charge_input_on_leave: bool = False
    max_concurrent_requests: Whole = 0
    max_concurrent_streams: Whole = 0
    header_overrides: dict[str, str] = {}
    parameter_overrides: dict[str, object] = {}
    status: Literal["enabled", "disabled", "closed"] = "enabled"


class ModelRouteEntry(Entry):
    """policy: the name of a stream policy; null = the channel's."""

    model: str
    group: str = ""
    is_artefact: bool = False
    hedge_after_ms: Whole = 0
    degrade_to_non_stream: bool = False
    fallback_models: list[str] = []
    policy: str | None = None
    status: Literal["open", "closed"] = "open"


class TermsEntry(Entry):
    """As the columns of a price (`billing.models.prices.PriceColumns`); null = falls back to another part."""

    input: Usd | None = None
    cached_input: Usd | None = None
    cache_write_5m: Usd | None = None
    cache_write_1h: Usd | None = None
    output: Usd | None = None
    reasoning: Usd | None = None
    audio_input: Usd | None = None
    audio_output: Usd | None = None
    image_input: Usd | None = None
    image_output: Usd | None = None
    per_call: Usd | None = None
    per_image: Usd | None = None
    per_audio_second: Usd | None = None
    per_character: Usd | None = None
    tiers: Tiers = ()
    image_rates: ImageRates = {}

    def terms(self) -> PriceTerms:
        """All of it, what the file does not name unset."""
        parts = PriceParts(**{name: getattr(self, name) for name in PART_NAMES})
        return PriceTerms(parts=parts, tiers=self.tiers, image_rates=self.image_rates)


class PriceEntry(TermsEntry):
    model: str
    group: str = ""
    effective_from: Moment = ALWAYS


class CostPriceEntry(TermsEntry):
    """channel: its name. model: as it is sent upstream."""

    channel: str
    model: str
    effective_from: Moment = ALWAYS


class GroupMultiplierEntry(Entry):
    group: str
    multiplier: Multiplier
    effective_from: Moment = ALWAYS


class ApiKeyEntry(Entry):
    """key: one that its owner has already; missing or null = one is made."""

    name: str
    key: SecretStr | None = None
    expires_at: Moment | None = None
    allowed_models: list[str] = []
    allowed_networks: list[str] = []
    max_concurrent_requests: Whole = 0
    max_concurrent_streams: Whole = 0
    requests_per_minute: Whole = 0
    tokens_per_minute: Whole = 0


class TenantEntry(Entry):
    """balance_usd: the opening balance, posted once."""

    name: str
    group: str = ""
    max_concurrent_requests: Whole = 0
    max_concurrent_streams: Whole = 0
    requests_per_minute: Whole = 0
    tokens_per_minute: Whole = 0
    status: AccessStatus = AccessStatus.ACTIVE
    balance_usd: Balance = Decimal(0)
    api_keys: list[ApiKeyEntry] = []


class ProvisioningFile(Entry):
    """flags: name → value, null clears what the console has saved."""

    flags: dict[str, object] = {}
    stream_policies: list[StreamPolicyEntry] = []
    channels: list[ChannelEntry] = []
    model_routes: list[ModelRouteEntry] = []
    prices: list[PriceEntry] = []
    cost_prices: list[CostPriceEntry] = []
    group_multipliers: list[GroupMultiplierEntry] = []
    tenants: list[TenantEntry] = []


ENTRIES: dict[tuple[str, ...], type[Entry]] = {
    (): ProvisioningFile,
    ("stream_policies",): StreamPolicyEntry,
    ("channels",): ChannelEntry,
    ("model_routes",): ModelRouteEntry,
    ("prices",): PriceEntry,
    ("cost_prices",): CostPriceEntry,
    ("group_multipliers",): GroupMultiplierEntry,
    ("tenants",): TenantEntry,
    ("tenants", "api_keys"): ApiKeyEntry,
}
"""Which entry stands where: the path without its numbers."""
