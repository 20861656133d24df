"""A usage report as CSV, sent while it is read.

A spreadsheet runs what looks like a formula: text that begins like one gets an apostrophe before it. Numbers
are our own and stay numbers.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from itertools import islice

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse

from billing.core.money import usd_from_nano
from billing.models import FIRST_EVENT_BOUNDS_MS
from billing.selectors.report_names import names_of
from billing.selectors.reports import Grouping, ReportQuery, UsageLine, usage_lines

Cell = str | int | float | None
_LINES_AT_ONCE = 500
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
_BYTE_ORDER_MARK = "\ufeff"
"""Without it a spreadsheet reads names in another alphabet as Latin-1."""

COLUMNS = (
    "requests", "successes", "success_share", "incomplete", "estimated", "estimated_share",
    "possible_duplicates", "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens",
    "reasoning_tokens", "images", "charged_usd", "operator_cost_usd", "margin_usd",
    "first_event_p50_ms_at_most", "first_event_p95_ms_at_most",
)  # fmt: skip


def safe_text(text: str) -> str:
    """What no spreadsheet takes for a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) else text


def report_csv(query: ReportQuery) -> Iterator[str]:
    """The whole report, in pieces of a few hundred lines."""
    yield _BYTE_ORDER_MARK + _written([_heading(query.by)])
    lines = usage_lines(query)
    while batch := list(islice(lines, _LINES_AT_ONCE)):
        names = names_of(query.by, [line.key for line in batch if isinstance(line.key, int)])
        yield _written(_cells(line, names) for line in batch)


def csv_response(query: ReportQuery) -> StreamingHttpResponse:
    name = f"usage-by-{query.by.value}-{query.first}-{query.last}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingHttpResponse(
        _from_thread(report_csv(query)), content_type="text/csv; charset=utf-8", headers=headers
    )


def _heading(by: Grouping) -> tuple[str, ...]:
    own = (by.value,) if by.is_time or by is Grouping.MODEL else (f"{by.value}_id", by.value)
    return (*own, *COLUMNS)


def _cells(line: UsageLine, names: Mapping[int, str]) -> tuple[Cell, ...]:
    if isinstance(line.key, int):
        own: tuple[Cell, ...] = (line.key, safe_text(names.get(line.key, "")))
    elif isinstance(line.key, str):
        own = (safe_text(line.key),)
    else:
        own = (line.key.isoformat(),)
    return (*own, *_figures(line))


def _figures(line: UsageLine) -> tuple[Cell, ...]:
    sums = line.sums
    money = (sums.charged_nano, sums.operator_cost_nano, sums.margin_nano)
    return (
        sums.requests,
        sums.successes,
        _share(sums.success_share),
        sums.incomplete,
        sums.estimated,
        _share(sums.estimated_share),
        sums.possible_duplicates,
        sums.input,
        sums.cached_input,
        sums.cache_write,
        sums.output,
        sums.reasoning,
        sums.images,
        *(f"{usd_from_nano(nano):f}" for nano in money),
        _bound(sums.first_event_ms(0.5)),
        _bound(sums.first_event_ms(0.95)),
    )


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.4f}"


def _bound(milliseconds: float | None) -> Cell:
    if milliseconds is None:
        return ""
    return f">{FIRST_EVENT_BOUNDS_MS[-1]}" if math.isinf(milliseconds) else milliseconds


def _written(rows: Iterable[Iterable[Cell]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


async def _from_thread(pieces: Iterator[str]) -> AsyncIterator[str]:
    """Each piece is read in the request's own thread, where its database connection is."""
    following = sync_to_async(lambda: next(pieces, None))
    while (piece := await following()) is not None:
        yield piece
