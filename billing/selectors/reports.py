"""Usage reports: sums of the roll-ups over a range of days, in groups. Nothing here reads a request.

Days and hours are UTC. Amounts are nano-dollars.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from django.db.models import BigIntegerField, F, QuerySet, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from billing.core.histograms import percentile_bound
from billing.models import FIRST_EVENT_BOUNDS_MS, UsageDaily, UsageHourly

EARLIEST, LATEST = datetime.date(2000, 1, 1), datetime.date(2999, 12, 31)
"""Days beyond are a slip of the hand, and near the calendar's ends arithmetic fails."""
DAYS_MAX = 366
HOURLY_DAYS_MAX = 31
_CHUNK = 500


class Grouping(StrEnum):
    DAY = "day"
    HOUR = "hour"
    TENANT = "tenant"
    API_KEY = "api_key"
    MODEL = "model"
    CHANNEL = "channel"

    @property
    def is_time(self) -> bool:
        return self in {Grouping.DAY, Grouping.HOUR}


class BadRange(ValueError):
    """A range that cannot be reported; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportQuery:
    """first, last: days, both included. The rest narrows the report; None = all. Raises BadRange."""

    first: datetime.date
    last: datetime.date
    by: Grouping
    tenant_id: int | None = None
    api_key_id: int | None = None
    channel_id: int | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        days, most = (self.last - self.first).days + 1, self.days_max
        if self.first < EARLIEST or self.last > LATEST:
            raise BadRange(f"Days are between {EARLIEST} and {LATEST}.")
        if days < 1:
            raise BadRange("The range ends before it begins.")
        if days > most:
            raise BadRange(f"The range has {days} days; at most {most} can be reported by {self.by.value}.")

    @property
    def days_max(self) -> int:
        return HOURLY_DAYS_MAX if self.by is Grouping.HOUR else DAYS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSums:
    """Names as in `billing.models.usage_rollups`. first_events: counts by bucket, one more than bounds."""

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
    first_events: tuple[int, ...] = ()

    @property
    def success_share(self) -> float | None:
        return self.successes / self.requests if self.requests else None

    @property
    def estimated_share(self) -> float | None:
        return self.estimated / self.requests if self.requests else None

    @property
    def margin_nano(self) -> int:
        return self.charged_nano - self.operator_cost_nano

    def first_event_ms(self, share: float) -> float | None:
        """At most so many milliseconds for `share` of the requests that had an event; infinity, None as in
        `percentile_bound`.
        """
        return percentile_bound(self.first_events, FIRST_EVENT_BOUNDS_MS, share)


Key = datetime.date | datetime.datetime | int | str
"""Of a line: a day, an hour, an id or a model's name, as the query is grouped."""


@dataclass(frozen=True, slots=True)
class UsageLine:
    key: Key
    sums: UsageSums


def usage_total(query: ReportQuery) -> UsageSums:
    return _sums(_rows(query).aggregate(**_SUMS))


def usage_lines(query: ReportQuery, *, limit: int | None = None) -> Iterator[UsageLine]:
    """One line a group: in the order of time, or those that paid most first. Read in chunks."""
    column = _COLUMNS[query.by]
    order = (column,) if query.by.is_time else ("-sum_charged_nano", "-sum_requests", column)
    rows: QuerySet[Any, dict[str, Any]] = _rows(query).values(column).annotate(**_SUMS).order_by(*order)
    if limit is not None:
        rows = rows[:limit]
    for row in rows.iterator(chunk_size=_CHUNK):
        yield UsageLine(row[column], _sums(row))


_COLUMNS: Mapping[Grouping, str] = {
    Grouping.DAY: "day",
    Grouping.HOUR: "hour",
    Grouping.TENANT: "tenant_id",
    Grouping.API_KEY: "api_key_id",
    Grouping.MODEL: "model",
    Grouping.CHANNEL: "channel_id",
}
_SUMMED = tuple(field.name for field in fields(UsageSums) if field.name != "first_events")
_BUCKETS = range(len(FIRST_EVENT_BOUNDS_MS) + 1)


def _bucket(place: int) -> Sum:
    """Counted in the database: a report by model would otherwise read every row of its range."""
    text = KeyTextTransform(str(place), "first_event_histogram")
    return Sum(Cast(text, BigIntegerField()))


_SUMS: Mapping[str, Sum] = {f"sum_{name}": Sum(F(name)) for name in _SUMMED} | {
    f"bucket_{place}": _bucket(place) for place in _BUCKETS
}


def _rows(query: ReportQuery) -> QuerySet[Any]:
    rows: QuerySet[Any]
    if query.by is Grouping.HOUR:
        after = _midnight(query.last + datetime.timedelta(days=1))
        rows = UsageHourly.objects.filter(hour__gte=_midnight(query.first), hour__lt=after)
    else:
        rows = UsageDaily.objects.filter(day__range=(query.first, query.last))
    narrowed = {name: getattr(query, name) for name in ("tenant_id", "api_key_id", "channel_id", "model")}
    return rows.filter(**{name: value for name, value in narrowed.items() if value is not None})


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)


def _sums(row: Mapping[str, Any]) -> UsageSums:
    counts: Sequence[int] = [row[f"bucket_{place}"] or 0 for place in _BUCKETS]
    summed = {name: row[f"sum_{name}"] or 0 for name in _SUMMED}
    return UsageSums(**summed, first_events=tuple(counts))
