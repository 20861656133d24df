"""Roll-ups: sums by hour and by day, kept in the transaction that posts the charge, under its time.

A tenant's roll-ups are read, added up and written under the lock of its account, which every writer holds.
The money of a moment stays what the ledger says of that moment; counts of a request that turned out
otherwise are taken back where they were added.
"""

import bisect
import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from billing.models import FIRST_EVENT_BOUNDS_MS, Attempt, RelayRequest, UsageDaily, UsageHourly, UsageRecord
from billing.services.guarded_insert import rows_upsert
from billing.services.usage_slices import late_changes_note
from relay.core.end_reasons import SUCCESSFUL

_COUNT_MAX = 10**12
"""Of one request: an upstream that reports nonsense must not bring a sum to the end of its 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What one request adds. The names are columns of the roll-ups; amounts in nano-dollars."""

    requests: int = 0
    successes: int = 0
    incomplete: int = 0
    estimated: int = 0
    possible_duplicates: int = 0
    input: int = 0
    cached_input: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    images: int = 0
    charged_nano: int = 0
    operator_cost_nano: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One request's part of the roll-ups of its moment. sign: -1 takes back what was added before.

    first_event: index into the histogram of first-event times, None = no event came.
    """

    moment: datetime.datetime
    tenant_id: int
    api_key_id: int
    model: str
    channel_id: int
    sums: Sums
    first_event: int | None = None
    sign: int = 1


_R = TypeVar("_R", UsageHourly, UsageDaily)
_BucketOf = Callable[[datetime.datetime], datetime.date]
_Key = tuple[datetime.date, int, int, str, int]
_COLUMNS = tuple(field.name for field in fields(Sums))
_MONEY = ("charged_nano", "operator_cost_nano")
_PLACE = ("tenant_id", "api_key_id", "model", "channel_id")


def share_of(
    row: RelayRequest,
    usage: UsageRecord | None,
    attempts: Sequence[Attempt],
    *,
    moment: datetime.datetime,
    charged_nano: int,
    sign: int = 1,
) -> Share:
    """Made from rows, written or not, so that it can be made again from what is read back."""
    answering = answering_attempt(attempts)
    is_success = row.end_reason in SUCCESSFUL
    sums = Sums(
        requests=1,
        successes=int(is_success),
        incomplete=int(not is_success and answering is not None and answering.committed),
        estimated=int(row.estimated),
        possible_duplicates=row.possible_duplicates,
        charged_nano=charged_nano,
        operator_cost_nano=row.operator_cost_nano or 0,
        **_tokens(usage),
    )
    return Share(
        moment=moment,
        tenant_id=row.tenant_id,
        api_key_id=row.api_key_id,
        model=row.model_asked,
        channel_id=0 if answering is None else answering.channel_id,
        sums=sums,
        first_event=None if row.first_event_ms is None else _bucket(row.first_event_ms),
        sign=sign,
    )


def share_of_correction(share: Share, *, moment: datetime.datetime, charged_nano: int) -> Share:
    """Money alone, at a later moment, in the place of `share`."""
    place = {name: getattr(share, name) for name in _PLACE}
    return Share(moment=moment, sums=Sums(charged_nano=charged_nano), **place)


def rollups_add(shares: Sequence[Share], *, now: datetime.datetime) -> None:
    """Adds the shares to both tables, with four statements for any number of them; one more if some are of
    hours that are over, whose slices are made again then.

    The caller holds the locks of the tenants' accounts. now: their time.
    """
    if shares:
        _add(UsageHourly, "hour", _hour_of, shares)
        _add(UsageDaily, "day", _day_of, shares)
        late_changes_note([share.moment for share in shares], now=now)


def _add(table: type[_R], when: str, bucket_of: _BucketOf, shares: Sequence[Share]) -> None:
    rows = {_key(row, getattr(row, when)): row for row in _read(table, when, bucket_of, shares)}
    touched: dict[_Key, _R] = {}
    for share in shares:
        key = _key(share, bucket_of(share.moment))
        if key not in rows:
            rows[key] = table(**dict(zip((when, *_PLACE), key, strict=True)))
        touched[key] = rows[key]
        _add_to(rows[key], share)
    rows_upsert(list(touched.values()), unique=(when, *_PLACE), update=(*_COLUMNS, "first_event_histogram"))


def _read(table: type[_R], when: str, bucket_of: _BucketOf, shares: Sequence[Share]) -> Iterable[_R]:
    """Some rows more than are needed: any combination of what is needed."""
    among: dict[str, set[object]] = {
        f"{name}__in": {getattr(share, name) for share in shares} for name in _PLACE
    }
    among[f"{when}__in"] = {bucket_of(share.moment) for share in shares}
    return table._default_manager.filter(**among)  # noqa: SLF001  Django documents it as public


def _key(one: Share | UsageHourly | UsageDaily, bucket: datetime.date) -> _Key:
    return bucket, one.tenant_id, one.api_key_id, one.model, one.channel_id


def _add_to(row: UsageHourly | UsageDaily, share: Share) -> None:
    for name in _COLUMNS:
        value = getattr(row, name) + share.sign * getattr(share.sums, name)
        setattr(row, name, value if name in _MONEY else max(0, value))
    if share.first_event is not None:
        counts = row.first_event_histogram or [0] * (len(FIRST_EVENT_BOUNDS_MS) + 1)
        counts[share.first_event] = max(0, counts[share.first_event] + share.sign)
        row.first_event_histogram = counts


def answering_attempt(attempts: Sequence[Attempt]) -> Attempt | None:
    """The one that answered, else the one that was tried last."""
    ordered = sorted(attempts, key=lambda attempt: attempt.number)
    committed = [attempt for attempt in ordered if attempt.committed]
    return committed[0] if committed else (ordered[-1] if ordered else None)


def _tokens(usage: UsageRecord | None) -> dict[str, int]:
    if usage is None:
        return {}
    counts = {
        name: getattr(usage, name) or 0 for name in ("input", "cached_input", "output", "reasoning", "images")
    }
    counts["cache_write"] = (usage.cache_write_5m or 0) + (usage.cache_write_1h or 0)
    return {name: min(count, _COUNT_MAX) for name, count in counts.items()}


def _bucket(first_event_ms: float) -> int:
    return bisect.bisect_left(FIRST_EVENT_BOUNDS_MS, first_event_ms)


def _hour_of(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _day_of(moment: datetime.datetime) -> datetime.date:
    return moment.date()
