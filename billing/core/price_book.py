"""Which price, cost price and multiplier count for a request. Pure; the time is handed in.

Among the open rows that have begun:

1. the exact name comes before a pattern, a pattern with more literal characters before one with fewer;
2. under one name or pattern, the tenant's group comes before “all groups”;
3. of one name and group, the row that began last counts.

A row whose model begins with `/` is for requests that name no model, and is compared with their path; no
other row is, not even `*`.
"""

import datetime
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from billing.core.prices import CostPriceRow, MultiplierRow, PriceRow
from relay.core.selection import matches

_REMEMBERED = 4096
_EVER = datetime.datetime.max.replace(tzinfo=datetime.UTC)
_FIRST = datetime.datetime.min.replace(tzinfo=datetime.UTC)


class _Dated(Protocol):
    @property
    def effective_from(self) -> datetime.datetime: ...


RowT = TypeVar("RowT", bound=_Dated)


class _Table(Generic[RowT]):
    """Rows by name or pattern, then by scope (a group, or nothing). Newest first."""

    def __init__(self, entries: Iterable[tuple[str, str, RowT]]) -> None:
        self._rows: dict[str, dict[str, list[RowT]]] = {}
        ordered = sorted(entries, key=lambda entry: entry[2].effective_from, reverse=True)
        for name, scope, row in ordered:
            self._rows.setdefault(name, {}).setdefault(scope, []).append(row)
        patterns = [name for name in self._rows if "*" in name]
        self._patterns = sorted(patterns, key=lambda text: (text.count("*") - len(text), text))

    def find(self, name: str, scopes: Sequence[str], now: datetime.datetime) -> RowT | None:
        for found in self._covering(name):
            by_scope = self._rows[found]
            for scope in scopes:
                row = _begun(by_scope.get(scope, ()), now)
                if row is not None:
                    return row
        return None

    def _covering(self, name: str) -> Iterator[str]:
        if name in self._rows:
            yield name
        yield from (pattern for pattern in self._patterns if matches(pattern, name))


class PriceBook:
    """The prices of one configuration version. Never changes once built.

    Names come from clients, so what was found is remembered in a table that starts afresh when it is full,
    each finding until the next row begins.
    """

    __slots__ = ("_begins", "_costs", "_found", "_models", "_multipliers", "_names", "_paths")

    def __init__(
        self,
        prices: Iterable[PriceRow] = (),
        cost_prices: Iterable[CostPriceRow] = (),
        multipliers: Iterable[MultiplierRow] = (),
    ) -> None:
        rows = tuple(prices)
        by_path = [(row.model, row.group, row) for row in rows if row.model.startswith("/")]
        by_model = [(row.model, row.group, row) for row in rows if not row.model.startswith("/")]
        self._paths, self._models = _Table(by_path), _Table(by_model)
        self._names = tuple(row for model, _, row in by_model if "*" not in model)
        self._costs = _Table([(row.model, str(row.channel_id), row) for row in cost_prices])
        self._multipliers: dict[str, list[MultiplierRow]] = {}
        for row in sorted(multipliers, key=lambda row: row.effective_from, reverse=True):
            self._multipliers.setdefault(row.group, []).append(row)
        self._begins = sorted({row.effective_from for row in rows})
        self._found: dict[
            tuple[str, str, str], tuple[datetime.datetime, datetime.datetime, PriceRow | None]
        ] = {}

    def price(self, model: str, group: str, now: datetime.datetime, *, path: str = "") -> PriceRow | None:
        """What the model costs a tenant of the group; where no model was named, what the path costs.

        None = it has no price.
        """
        key = (model, group, "" if model else path)
        known = self._found.get(key)
        if known is not None and known[0] <= now < known[1]:
            return known[2]
        table, name = (self._models, model) if model else (self._paths, path)
        row = table.find(name, (group, "") if group else ("",), now)
        if len(self._found) >= _REMEMBERED:
            self._found.clear()
        self._found[key] = (*self._period(now), row)
        return row

    def cost_price(self, channel_id: int, model_sent: str, now: datetime.datetime) -> CostPriceRow | None:
        """What the operator pays for it on the channel; None = nobody said."""
        return self._costs.find(model_sent, (str(channel_id),), now)

    def multiplier(self, group: str, now: datetime.datetime) -> MultiplierRow | None:
        """None = 1."""
        return _begun(self._multipliers.get(group, ()), now)

    def priced_names(self, group: str, now: datetime.datetime) -> frozenset[str]:
        """Model names that have a price of their own now for tenants of the group; no patterns, no paths."""
        return frozenset(
            row.model for row in self._names if row.group in {"", group} and row.effective_from <= now
        )

    def _period(self, now: datetime.datetime) -> tuple[datetime.datetime, datetime.datetime]:
        """The time around `now` in which no price begins."""
        at = bisect_right(self._begins, now)
        begin = self._begins[at - 1] if at else _FIRST
        return begin, self._begins[at] if at < len(self._begins) else _EVER


def _begun(rows: Sequence[RowT], now: datetime.datetime) -> RowT | None:
    """Of rows that begin later and later backwards, the first that has begun."""
    return next((row for row in rows if row.effective_from <= now), None)
