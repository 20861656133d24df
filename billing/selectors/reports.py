"""Usage reports: sums over a range of days, in groups, of roll-ups and their slices. No request is read.

Days and hours are UTC. Amounts are nano-dollars.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db import connection

from billing.core.histograms import percentile_bound
from billing.models import FIRST_EVENT_BOUNDS_MS
from billing.selectors.report_rows import Wanted, report_rows
from billing.services.usage_slices import BUCKETS, FIGURES

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


@dataclass(frozen=True, slots=True)
class UsageReport:
    """total: of everything, whether its line is among `lines` or not."""

    lines: tuple[UsageLine, ...]
    total: UsageSums


def usage_total(query: ReportQuery) -> UsageSums:
    rows = list(_read(query, key=None))
    return _sums(rows[0][1]) if rows else UsageSums()


def usage_lines(query: ReportQuery) -> Iterator[UsageLine]:
    """One line a group: in the order of time, or those that paid most first. Read in chunks."""
    for key, figures in _read(query, key=_COLUMNS[query.by]):
        yield UsageLine(_key(query.by, key), _sums(figures))


def usage_report(query: ReportQuery, *, limit: int) -> UsageReport:
    """At most `limit` lines, in that order, and the total, in one statement."""
    rows = list(_read(query, key=_COLUMNS[query.by], limit=limit))
    lines = tuple(UsageLine(_key(query.by, key), _sums(figures[: len(_SUMMED)])) for key, figures in rows)
    return UsageReport(lines, _sums(rows[0][1][len(_SUMMED) :]) if rows else UsageSums())


_COLUMNS: Mapping[Grouping, str] = {
    Grouping.DAY: "day",
    Grouping.HOUR: "hour",
    Grouping.TENANT: "tenant_id",
    Grouping.API_KEY: "api_key_id",
    Grouping.MODEL: "model",
    Grouping.CHANNEL: "channel_id",
}
_SUMMED = (*FIGURES, *BUCKETS)
_Figures = Sequence[int | None]


def _read(query: ReportQuery, *, key: str | None, limit: int | None = None) -> Iterator[tuple[Any, _Figures]]:
    """Key and sums of each group; with a limit the sums over all groups behind them.

    One statement over both kinds of rows, which the ORM cannot group.
    """
    selects = [rows.query.sql_with_params() for rows in report_rows(_wanted(query, key), key=key)]
    source = " UNION ALL ".join(_in_order(sql, key) for sql, _ in selects)
    parameters = [value for _, values in selects for value in values]
    quote = connection.ops.quote_name
    sums = [f"SUM({quote(f'v_{name}')})" for name in _SUMMED]
    columns = [f"{total} AS {quote(name)}" for name, total in zip(_SUMMED, sums, strict=True)]
    if limit is not None:
        columns += [f"SUM({total}) OVER ()" for total in sums]
    sql = f"SELECT {'v_key' if key else 'NULL'}, {', '.join(columns)} FROM ({source}) r"  # noqa: S608  our own names
    if key:
        order = "v_key" if query.by.is_time else "charged_nano DESC, requests DESC, v_key"
        sql += f" GROUP BY v_key ORDER BY {order}" + ("" if limit is None else f" LIMIT {int(limit)}")
    with connection.chunked_cursor() as cursor:
        cursor.execute(sql, parameters)
        while rows := cursor.fetchmany(_CHUNK):
            yield from ((row[0], row[1:]) for row in rows)


def _in_order(sql: str, key: str | None) -> str:
    """The columns in one order: a union goes by place, not by name."""
    quote = connection.ops.quote_name
    names = [*(["v_key"] if key else []), *(f"v_{name}" for name in _SUMMED)]
    return f"SELECT {', '.join(map(quote, names))} FROM ({sql}) q"  # noqa: S608  our own names


def _wanted(query: ReportQuery, key: str | None) -> Wanted:
    narrowed = {name: getattr(query, name) for name in ("tenant_id", "api_key_id", "channel_id", "model")}
    return Wanted(
        first=query.first,
        last=query.last,
        columns=frozenset() if key is None or query.by.is_time else frozenset({key}),
        narrowed={name: value for name, value in narrowed.items() if value is not None},
        hourly=query.by is Grouping.HOUR and key is not None,
    )


def _key(by: Grouping, key: Any) -> Key:
    """SQLite gives moments as text or without their zone."""
    if isinstance(key, str) and by.is_time:
        kind = datetime.datetime if by is Grouping.HOUR else datetime.date
        key = kind.fromisoformat(key)
    found: Key = key
    if isinstance(found, datetime.datetime) and found.tzinfo is None:
        return found.replace(tzinfo=datetime.UTC)
    return found


def _sums(figures: _Figures) -> UsageSums:
    counts = [int(count or 0) for count in figures]
    summed = dict(zip(FIGURES, counts, strict=False))
    return UsageSums(**summed, first_events=tuple(counts[len(FIGURES) :]))
