"""The runtime flags: one table with type, default and meaning, and how a value is read and found.

The environment gives a flag's value until the console saves one; flags named in PINNED_FLAGS are fixed by
the environment. The docs and the settings page are made from `FLAGS`. Knows no model.
"""

import functools
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args, get_origin

from django.conf import settings
from pydantic import Field, TypeAdapter, ValidationError

from channels_admin.flag_types import (
    Count,
    OverflowMode,
    Patterns,
    PositiveSeconds,
    Scope,
    Seconds,
    Share,
    Switch,
)
from relay.core.types import RelayFlags

logger = logging.getLogger(__name__)


class FlagError(Exception):
    """A flag that does not exist, or a value that it does not take."""


class FlagSource(StrEnum):
    DEFAULT = "default"
    ENVIRONMENT = "environment"
    CONSOLE = "console"


class FlagGroup(StrEnum):
    IMAGE_FAILOVER = "image failover"
    IMAGE_CONCURRENCY = "image concurrency"
    TIMEOUTS = "timeouts"
    RETRIES = "retries"
    HEDGING = "hedging"
    BILLING = "billing"
    LIMITS = "limits and upkeep"


@dataclass(frozen=True, slots=True)
class Flag:
    """`type` is what a pydantic TypeAdapter takes; `default` is already of it."""

    name: str
    type: Any
    default: object
    meaning: str
    group: FlagGroup

    @property
    def choices(self) -> tuple[str, ...]:
        """The words it takes, for a Literal; else empty."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def is_switch(self) -> bool:
        return isinstance(self.default, bool)

    @property
    def is_list(self) -> bool:
        return isinstance(self.default, tuple)

    def parse(self, value: object) -> object:
        """Environment text or a console value → the flag's value. FlagError says what is wrong."""
        try:
            return _adapter(self.name).validate_python(value)
        except ValidationError as error:
            reason = "; ".join(detail["msg"] for detail in error.errors(include_url=False))
            raise FlagError(f"{self.name}: {reason}") from error


_FAILOVER, _IMAGES = FlagGroup.IMAGE_FAILOVER, FlagGroup.IMAGE_CONCURRENCY
_TABLE = (
    Flag(
        "IMAGES_FAILOVER_ENABLED",
        Switch,
        False,
        "Replay image requests that the upstream refused before it drew: 429, 503, 529, 530, 4xx.",
        _FAILOVER,
    ),
    Flag(
        "IMAGES_FAILOVER_INCLUDE_AMBIGUOUS",
        Switch,
        False,
        "Also after 500, 502 and other 5xx: a picture may be paid twice.",
        _FAILOVER,
    ),
    Flag(
        "IMAGES_FAILOVER_INCLUDE_UNCERTAIN",
        Switch,
        False,
        "Also after timeouts, 504, cuts and empty answers: pictures will be paid twice. Includes the 5xx.",
        _FAILOVER,
    ),
    Flag("IMAGE_CONCURRENCY_ENABLED", Switch, False, "Limit how many image requests run at once.", _IMAGES),
    Flag(
        "IMAGE_CONCURRENCY_MAX_CONCURRENT_REQUESTS",
        Count,
        0,
        "Image requests at once. 0: no limit. In scope `process` times the number of worker processes.",
        _IMAGES,
    ),
    Flag(
        "IMAGE_CONCURRENCY_OVERFLOW_MODE",
        OverflowMode,
        "reject",
        "Beyond the limit: refuse with 429 at once, or wait in turn.",
        _IMAGES,
    ),
    Flag("IMAGE_CONCURRENCY_WAIT_TIMEOUT_SECONDS", PositiveSeconds, 30.0, "Longest wait.", _IMAGES),
    Flag(
        "IMAGE_CONCURRENCY_MAX_WAITING_REQUESTS",
        Count,
        100,
        "Image requests that may wait, per process.",
        _IMAGES,
    ),
    Flag(
        "IMAGE_CONCURRENCY_SCOPE",
        Scope,
        "process",
        "Count image requests per worker process, or across all of them in Redis.",
        _IMAGES,
    ),
    Flag(
        "IMAGE_MODEL_PATTERNS",
        Patterns,
        ("gpt-image*", "chatgpt-image*", "dall-e*"),
        "Models whose `responses` requests count as image requests.",
        _IMAGES,
    ),
    Flag(
        "OUTBOUND_HEADER_TIMEOUT_SECONDS",
        PositiveSeconds,
        60.0,
        "From the request sent to the upstream's response headers, where the stream policy says 0.",
        FlagGroup.TIMEOUTS,
    ),
    Flag(
        "OUTBOUND_IMAGE_HEADER_TIMEOUT_SECONDS",
        PositiveSeconds,
        300.0,
        "The same on image paths. Raise it for slow drawings: failover does not rescue them.",
        FlagGroup.TIMEOUTS,
    ),
    Flag(
        "NON_STREAM_TIMEOUT_SECONDS",
        PositiveSeconds,
        300.0,
        "From the request sent to the whole answer of a plain request, where the channel says 0.",
        FlagGroup.TIMEOUTS,
    ),
    Flag("CHANNEL_RETRY_TIMES", Count, 1, "Retries with the same upstream key.", FlagGroup.RETRIES),
    Flag("RETRY_TIMES", Count, 2, "Further channels after the first; keys do not count.", FlagGroup.RETRIES),
    Flag(
        "RETRY_BUDGET_SECONDS",
        Seconds,
        300.0,
        "No new attempt starts after this time. Never cuts a running one; image paths ignore it.",
        FlagGroup.RETRIES,
    ),
    Flag(
        "HEALTH_FAILURE_THRESHOLD",
        Annotated[Count, Field(ge=1)],
        5,
        "Consecutive counted failures that disable a channel or an upstream key.",
        FlagGroup.RETRIES,
    ),
    Flag("HEDGE_MAX_SHARE", Share, 0.1, "Share of requests that may start a backup.", FlagGroup.HEDGING),
    Flag("HEDGE_MAX_RUNNING", Count, 50, "Backups running at once, per process.", FlagGroup.HEDGING),
    Flag(
        "IDEMPOTENT_ANSWERS",
        Switch,
        False,
        "Answer a repeated `Idempotency-Key` from the stored answer, not billed again.",
        FlagGroup.BILLING,
    ),
    Flag(
        "ALLOW_UNPRICED_MODELS",
        Switch,
        False,
        "Serve models that have no price, free of charge.",
        FlagGroup.BILLING,
    ),
    Flag("MAX_ACTIVE_STREAMS", Count, 0, "Active streams per process. 0: no limit.", FlagGroup.LIMITS),
    Flag(
        "RETENTION_DAYS",
        Annotated[Count, Field(ge=1, le=36_500)],
        90,
        "Days that relay requests and their attempts are kept.",
        FlagGroup.LIMITS,
    ),
)
FLAGS: Mapping[str, Flag] = {flag.name: flag for flag in _TABLE}
IMAGE_FAILOVER_FLAGS = tuple(flag.name for flag in _TABLE if flag.group is _FAILOVER)


@functools.cache
def _adapter(name: str) -> TypeAdapter[object]:
    return TypeAdapter(FLAGS[name].type)


def flag_named(name: str) -> Flag:
    """Raises FlagError."""
    try:
        return FLAGS[name]
    except KeyError:
        raise FlagError(f"{name} is no runtime flag.") from None


@dataclass(frozen=True, slots=True)
class FlagState:
    """What a flag is now, and who says so. `stored` is the console's value, None when cleared."""

    flag: Flag
    value: object
    source: FlagSource
    stored: object | None
    is_pinned: bool


def environment_value(flag: Flag, environ: Mapping[str, str]) -> object | None:
    """None if unset or blank. Raises FlagError."""
    text = environ.get(flag.name, "")
    return flag.parse(text) if text.strip() else None


def _stored_value(flag: Flag, stored: object | None) -> object | None:
    """None for a value that this version does not take: a newer one may have saved it."""
    if stored is None:
        return None
    try:
        return flag.parse(stored)
    except FlagError:
        logger.exception("The saved value of runtime flag %s is ignored", flag.name)
        return None


def is_pinned(name: str) -> bool:
    return name in settings.PINNED_FLAGS


def flag_state(flag: Flag, stored: object | None, *, environ: Mapping[str, str] | None = None) -> FlagState:
    """Raises FlagError for a bad environment value."""
    from_environment = environment_value(flag, os.environ if environ is None else environ)
    pinned, saved = is_pinned(flag.name), _stored_value(flag, stored)
    if saved is not None and not pinned:
        value, source = saved, FlagSource.CONSOLE
    elif from_environment is not None:
        value, source = from_environment, FlagSource.ENVIRONMENT
    else:
        value, source = flag.default, FlagSource.DEFAULT
    return FlagState(flag=flag, value=value, source=source, stored=saved, is_pinned=pinned)


def flag_values(stored: Mapping[str, object | None]) -> dict[str, object]:
    """Name → effective value of every known flag; `stored` holds the console's values."""
    return {flag.name: flag_state(flag, stored.get(flag.name)).value for flag in FLAGS.values()}


def _number(values: Mapping[str, object], name: str) -> float:
    value = values[name]
    if not isinstance(value, int | float):
        raise FlagError(f"{name}: a number is expected")
    return float(value)


def _count(values: Mapping[str, object], name: str) -> int:
    value = values[name]
    if not isinstance(value, int):
        raise FlagError(f"{name}: a whole number is expected")
    return value


def relay_flags(values: Mapping[str, object]) -> RelayFlags:
    """The part that the stream runtime obeys. `values` as `flag_values` returns them."""
    return RelayFlags(
        header_timeout_s=_number(values, "OUTBOUND_HEADER_TIMEOUT_SECONDS"),
        image_header_timeout_s=_number(values, "OUTBOUND_IMAGE_HEADER_TIMEOUT_SECONDS"),
        non_stream_timeout_s=_number(values, "NON_STREAM_TIMEOUT_SECONDS"),
        channel_retry_times=_count(values, "CHANNEL_RETRY_TIMES"),
        retry_times=_count(values, "RETRY_TIMES"),
        retry_budget_s=_number(values, "RETRY_BUDGET_SECONDS"),
        images_failover=bool(values["IMAGES_FAILOVER_ENABLED"]),
        images_failover_ambiguous=bool(values["IMAGES_FAILOVER_INCLUDE_AMBIGUOUS"]),
        images_failover_uncertain=bool(values["IMAGES_FAILOVER_INCLUDE_UNCERTAIN"]),
        hedge_max_share=_number(values, "HEDGE_MAX_SHARE"),
        hedge_max_running=_count(values, "HEDGE_MAX_RUNNING"),
    )
