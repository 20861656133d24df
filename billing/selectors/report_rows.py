"""Which rows a report reads: slices of the days that have them, roll-ups of the rest.

Slices are sums over all but what the report groups by or is narrowed to: a report over half a year reads
thousands of rows where roll-ups would be millions. Both are brought to the same columns.
"""

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import F, Q, QuerySet

from billing.models import (
    SliceKind,
    UsageDaily,
    UsageHourly,
    UsageSliceDaily,
    UsageSliceHourly,
    UsageSliceLate,
    Watermark,
)
from billing.services.usage_slices import (
    BUCKETS,
    FIGURES,
    HOURLY_KINDS,
    HOURS_WATERMARK,
    WATERMARK,
    bucket_of,
)

_DAY = datetime.timedelta(days=1)
_BY_COLUMNS: Mapping[frozenset[str], SliceKind] = {
    frozenset(): SliceKind.ALL,
    frozenset({"tenant_id"}): SliceKind.TENANT,
    frozenset({"api_key_id"}): SliceKind.API_KEY,
    frozenset({"model"}): SliceKind.MODEL,
    frozenset({"channel_id"}): SliceKind.CHANNEL,
    frozenset({"tenant_id", "model"}): SliceKind.TENANT_MODEL,
    frozenset({"tenant_id", "channel_id"}): SliceKind.TENANT_CHANNEL,
    frozenset({"api_key_id", "model"}): SliceKind.API_KEY_MODEL,
    frozenset({"api_key_id", "channel_id"}): SliceKind.API_KEY_CHANNEL,
    frozenset({"model", "channel_id"}): SliceKind.MODEL_CHANNEL,
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """columns: grouped by, beside time. narrowed: column → its one value. hourly: by hour, not day."""

    first: datetime.date
    last: datetime.date
    columns: frozenset[str]
    narrowed: Mapping[str, int | str]
    hourly: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """rows: UsageDaily, UsageHourly or their slices. is_slices: which, as histograms are kept otherwise."""

    rows: QuerySet[Any]
    is_slices: bool


def sources(wanted: Wanted) -> list[Source]:
    """One or two, together holding each moment of the range once."""
    kind = _kind(wanted)
    if kind is None:
        found = [Source(_rollups(_days(wanted), hourly=wanted.hourly), is_slices=False)]
    else:
        found = list(_hourly(wanted, kind) if wanted.hourly else _daily(wanted, kind))
    return [Source(one.rows.filter(**wanted.narrowed).order_by(), one.is_slices) for one in found]


def report_rows(wanted: Wanted, *, key: str | None) -> list[QuerySet[Any, dict[str, Any]]]:
    """Of the same columns: `v_key`, unless `key` is None, and figures, as `v_<name>`."""
    columns: dict[str, Any] = {f"v_{name}": F(name) for name in FIGURES}
    if key is not None:
        columns["v_key"] = F(key)
    found: list[QuerySet[Any, dict[str, Any]]] = []
    for source in sources(wanted):
        if source.is_slices:
            own: dict[str, Any] = {f"v_{name}": F(name) for name in BUCKETS}
        else:
            own = {f"v_{name}": bucket_of(place) for place, name in enumerate(BUCKETS)}
        found.append(source.rows.annotate(**columns, **own).values(*columns, *own))
    return found


def _kind(wanted: Wanted) -> SliceKind | None:
    """None: no slice keeps so many columns apart."""
    columns = wanted.columns | frozenset(wanted.narrowed)
    if "api_key_id" in columns:  # a key has one tenant, and its slices name it
        columns -= {"tenant_id"}
    kind = _BY_COLUMNS.get(columns)
    return kind if not wanted.hourly or kind in HOURLY_KINDS else None


def _daily(wanted: Wanted, kind: SliceKind) -> Iterator[Source]:
    """Days with slices that are right, and days without."""
    until, late = _watermark(WATERMARK), _late_days()
    days = _days(wanted)
    sliced = {day for day in days if until is not None and day < until.date() and day not in late}
    if sliced:
        yield Source(UsageSliceDaily.objects.filter(kind=kind, day__in=sorted(sliced)), is_slices=True)
    if rest := [day for day in days if day not in sliced]:
        yield Source(_rollups(rest, hourly=False), is_slices=False)


def _hourly(wanted: Wanted, kind: SliceKind) -> Iterator[Source]:
    """As by day; of the day that the watermark lies in, the hours before it have slices."""
    until, late = _watermark(HOURS_WATERMARK), _late_days()
    days = _days(wanted)
    sliced = {day for day in days if until is not None and _midnight(day) < until and day not in late}
    if sliced:
        slices = UsageSliceHourly.objects.filter(kind=kind, day__in=sorted(sliced), hour__lt=until)
        yield Source(slices, is_slices=True)
    rest = _spans([day for day in days if day not in sliced])
    if until is not None and until.date() in sliced:
        rest.append(Q(hour__gte=until, hour__lt=_midnight(until.date() + _DAY)))
    if rest:
        yield Source(UsageHourly.objects.filter(_any(rest)), is_slices=False)


def _watermark(name: str) -> datetime.datetime | None:
    return Watermark.objects.filter(name=name).values_list("moment", flat=True).first()


def _late_days() -> frozenset[datetime.date]:
    return frozenset(UsageSliceLate.objects.values_list("day", flat=True))


def _days(wanted: Wanted) -> list[datetime.date]:
    return [wanted.first + _DAY * number for number in range((wanted.last - wanted.first).days + 1)]


def _rollups(days: Collection[datetime.date], *, hourly: bool) -> QuerySet[Any]:
    if hourly:
        return UsageHourly.objects.filter(_any(_spans(days)))
    return UsageDaily.objects.filter(_any(Q(day__range=run) for run in _runs(days)))


def _spans(days: Collection[datetime.date]) -> list[Q]:
    return [Q(hour__gte=_midnight(first), hour__lt=_midnight(end + _DAY)) for first, end in _runs(days)]


def _any(conditions: Iterable[Q]) -> Q:
    return reduce(or_, conditions)


def _runs(days: Collection[datetime.date]) -> Iterator[tuple[datetime.date, datetime.date]]:
    """Ascending days as first and last of each row of neighbours."""
    first = last = None
    for day in days:
        if first is None or last is None:
            first = last = day
        elif day - last == _DAY:
            last = day
        else:
            yield first, last
            first = last = day
    if first is not None and last is not None:
        yield first, last


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)
