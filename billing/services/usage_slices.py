"""Makes the slices of days and hours that are over, and again those whose roll-ups changed later.

One transaction a day, under the lock of the watermark: before it, a report reads the day's roll-ups, after
it, the day's slices.
"""

import datetime
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import BigIntegerField, F, QuerySet, Sum, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce
from django.db.models.sql import Query

from billing.models import (
    FIRST_EVENT_BOUNDS_MS,
    SliceKind,
    UsageDaily,
    UsageHourly,
    UsageSliceDaily,
    UsageSliceHourly,
    UsageSliceLate,
    Watermark,
)
from billing.services.ledger_entries import database_now

WATERMARK = "usage_sliced"
"""Days before it have slices."""
HOURS_WATERMARK = "usage_sliced_hours"
"""Hours before it have slices: those days, and today as far as its hours are over."""
CLOSED_FOR = datetime.timedelta(hours=1)
"""A day, an hour is sliced when no transaction that began in it can be open any more."""
FIGURES = (
    "requests", "successes", "incomplete", "estimated", "possible_duplicates", "input", "cached_input",
    "cache_write", "output", "reasoning", "images", "charged_nano", "operator_cost_nano",
)  # fmt: skip
BUCKETS = tuple(f"first_events_{place}" for place in range(len(FIRST_EVENT_BOUNDS_MS) + 1))
HOURLY_KINDS = (SliceKind.API_KEY, SliceKind.TENANT, SliceKind.ALL, SliceKind.MODEL, SliceKind.CHANNEL)


@dataclass(frozen=True, slots=True)
class _Cut:
    """columns: what is kept apart. daily, hourly: the slice it is summed from, made before; None = roll-ups,
    where there are more rows, and counts that stand in JSON.
    """

    columns: tuple[str, ...]
    daily: SliceKind | None = None
    hourly: SliceKind | None = None


_CUTS: Mapping[SliceKind, _Cut] = {
    SliceKind.API_KEY_MODEL: _Cut(("tenant_id", "api_key_id", "model")),
    SliceKind.API_KEY_CHANNEL: _Cut(("tenant_id", "api_key_id", "channel_id")),
    SliceKind.MODEL_CHANNEL: _Cut(("model", "channel_id")),
    SliceKind.TENANT_MODEL: _Cut(("tenant_id", "model"), SliceKind.API_KEY_MODEL),
    SliceKind.TENANT_CHANNEL: _Cut(("tenant_id", "channel_id"), SliceKind.API_KEY_CHANNEL),
    SliceKind.API_KEY: _Cut(("tenant_id", "api_key_id"), SliceKind.API_KEY_MODEL),
    SliceKind.MODEL: _Cut(("model",), SliceKind.MODEL_CHANNEL),
    SliceKind.CHANNEL: _Cut(("channel_id",), SliceKind.MODEL_CHANNEL),
    SliceKind.TENANT: _Cut(("tenant_id",), SliceKind.API_KEY, SliceKind.API_KEY),
    SliceKind.ALL: _Cut((), SliceKind.TENANT, SliceKind.TENANT),
}
_DAY = datetime.timedelta(days=1)
_Slice = UsageSliceDaily | UsageSliceHourly
_NOWHERE: Mapping[str, int | str] = {"tenant_id": 0, "api_key_id": 0, "model": "", "channel_id": 0}


def usage_slices_build(*, budget_s: float) -> int:
    """How many days were sliced. When the time is up the rest is left to the next run.

    Errors: those of `django.db`.
    """
    deadline, built = time.monotonic() + budget_s, 0
    if not _begin():
        return 0
    while time.monotonic() < deadline and (day := _next_day()) is not None:
        built += _day_build(day)
    if time.monotonic() < deadline:
        _hours_build()
    return built


def late_changes_note(changed: Collection[datetime.datetime], *, now: datetime.datetime) -> None:
    """In the transaction that changes roll-ups of those moments: hours that are over may have slices."""
    days = {moment.date() for moment in changed if moment < _hour_of(now)}
    if days:
        UsageSliceLate.objects.bulk_create(UsageSliceLate(day=day) for day in sorted(days))


def bucket_of(place: int) -> Cast:
    """A count of a roll-up's histogram as a number; null where no event ever came."""
    return Cast(KeyTextTransform(str(place), "first_event_histogram"), BigIntegerField())


def _begin() -> bool:
    """Whether there is a watermark now."""
    if Watermark.objects.filter(name=WATERMARK).exists():
        return True
    first = UsageDaily.objects.order_by("day").values_list("day", flat=True).first()
    if first is None:
        return False
    for name in (WATERMARK, HOURS_WATERMARK):
        Watermark.objects.get_or_create(name=name, defaults={"moment": _midnight(first)})
    return True


def _next_day() -> datetime.date | None:
    """Late days first: theirs are wrong until then."""
    until = Watermark.objects.get(name=WATERMARK).moment.date()
    late = UsageSliceLate.objects.filter(day__lt=until).order_by("day").values_list("day", flat=True).first()
    if late is not None:
        return late
    return until if until < (database_now() - CLOSED_FOR).date() else None


def _day_build(day: datetime.date) -> int:
    """1, or 0 if another process was there first."""
    with transaction.atomic():
        mark = Watermark.objects.select_for_update().get(name=WATERMARK)
        late = list(UsageSliceLate.objects.filter(day=day).values_list("pk", flat=True))
        if mark.moment.date() != day and not late:
            return 0
        _day_write(day)
        # Those that were seen: their transactions are in what was read after.
        UsageSliceLate.objects.filter(pk__in=late).delete()
        if mark.moment.date() == day:
            until = _midnight(day + _DAY)
            Watermark.objects.filter(pk=WATERMARK).update(moment=until)
            Watermark.objects.filter(pk=HOURS_WATERMARK, moment__lt=until).update(moment=until)
    return 1


def _hours_build() -> None:
    """Of the day after the last that has all its slices: its hours that are over."""
    with transaction.atomic():
        mark = Watermark.objects.select_for_update().get(name=WATERMARK)
        day, known = mark.moment.date(), Watermark.objects.get(name=HOURS_WATERMARK).moment
        late = list(UsageSliceLate.objects.filter(day=day).values_list("pk", flat=True))
        until = min(_hour_of(database_now() - CLOSED_FOR), mark.moment + _DAY)
        if until <= known and not late:
            return
        _hours_write(day, max(until, known))
        UsageSliceLate.objects.filter(pk__in=late).delete()
        Watermark.objects.filter(pk=HOURS_WATERMARK, moment__lt=until).update(moment=until)


def _day_write(day: datetime.date) -> None:
    UsageSliceDaily.objects.filter(kind__in=list(SliceKind), day=day).delete()
    for kind, cut in _CUTS.items():
        _insert(table=UsageSliceDaily, kind=kind, day=day, columns=cut.columns, source=cut.daily)
    _hours_write(day, _midnight(day + _DAY))


def _hours_write(day: datetime.date, until: datetime.datetime) -> None:
    UsageSliceHourly.objects.filter(kind__in=HOURLY_KINDS, day=day).delete()
    for kind in HOURLY_KINDS:
        cut = _CUTS[kind]
        columns = ("hour", *cut.columns)
        _insert(table=UsageSliceHourly, kind=kind, day=day, columns=columns, source=cut.hourly, until=until)


def _insert(
    *,
    table: type[_Slice],
    kind: SliceKind,
    day: datetime.date,
    columns: tuple[str, ...],
    source: SliceKind | None,
    until: datetime.datetime | None = None,
) -> None:
    """`INSERT … SELECT`: the rows never leave the database. Without rows nothing is inserted."""
    sums: dict[str, Sum | Coalesce] = {f"v_{name}": Sum(F(name)) for name in FIGURES}
    if source is None:
        rows = _rollups(day, until)
        sums |= {f"v_{name}": Coalesce(Sum(bucket_of(place)), Value(0)) for place, name in enumerate(BUCKETS)}
    else:
        rows = table._default_manager.filter(kind=source, day=day)  # noqa: SLF001  Django documents it as public
        sums |= {f"v_{name}": Sum(F(name)) for name in BUCKETS}
    # The constant is a group, too: without one a sum over nothing would be a row.
    groups = {"v_kind": Value(kind.value), **{f"v_{name}": F(name) for name in columns}}
    query = rows.order_by().annotate(**groups).values(*groups).annotate(**sums)
    _copy(table, query.query, day, ("kind", *columns, *FIGURES, *BUCKETS))


def _rollups(day: datetime.date, until: datetime.datetime | None) -> QuerySet[Any]:
    if until is None:
        return UsageDaily.objects.filter(day=day)
    return UsageHourly.objects.filter(hour__gte=_midnight(day), hour__lt=until)


def _copy(table: type[_Slice], query: Query, day: datetime.date, names: tuple[str, ...]) -> None:
    quote, meta = connection.ops.quote_name, table._meta  # noqa: SLF001  Django documents it as public
    rest = {name: empty for name, empty in _NOWHERE.items() if name not in names}
    columns = ", ".join(quote(name) for name in (*names, *rest, "day"))
    values = ", ".join([*(f"q.{quote(f'v_{name}')}" for name in names), *["%s"] * len(rest), "%s"])
    sql, parameters = query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {quote(meta.db_table)} ({columns}) SELECT {values} FROM ({sql}) q "  # noqa: S608  names
            "WHERE q.v_requests IS NOT NULL",
            [*rest.values(), day, *parameters],
        )


def _hour_of(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)
