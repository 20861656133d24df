"""Prices, cost prices and group multipliers of a file, each known by whom it is for and when it begins."""

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from billing.core.prices import PART_NAMES, PriceParts, PriceTerms
from billing.models import CostPrice, GroupMultiplier, Price
from billing.models.prices import TERM_NAMES, PriceColumns
from billing.selectors.prices import price_terms
from billing.services.immutable_rows import RowBatch
from billing.services.prices import (
    COST_PRICE_IDENTITY,
    PRICE_IDENTITY,
    group_multiplier_set,
    price_columns,
)
from channels_admin.models import Channel
from gateway.provisioning.compare import change_text, change_texts, differing, field_texts
from gateway.provisioning.findings import Findings
from gateway.provisioning.reading import did_you_mean
from gateway.provisioning.schema import (
    ALWAYS,
    CostPriceEntry,
    GroupMultiplierEntry,
    PriceEntry,
    TermsEntry,
)

_EMPTY = PriceTerms(parts=PriceParts())
EntryT = TypeVar("EntryT")


def prices_provision(
    entries: Iterable[tuple[str, PriceEntry]], findings: Findings, *, is_whole: bool = False
) -> None:
    """entries: path in the file, entry. is_whole: what an entry does not name is unset, not left as it is."""
    batch = RowBatch(Price, PRICE_IDENTITY)
    for path, entry in _once(entries, _price_identity, findings):
        what = f"price {entry.model}{_of_group(entry.group)}{_start(entry.effective_from)}"
        with findings.at(path):
            identity = (entry.model, entry.group, entry.effective_from)
            row = batch.open_row(*identity)
            new = _terms(entry, row, findings, what=what, is_whole=is_whole)
            if new is not None:
                batch.set(*identity, values=_columns(new))
    batch.write()


def cost_prices_provision(
    entries: Iterable[tuple[str, CostPriceEntry]],
    findings: Findings,
    *,
    channel_names: Collection[str] = (),
    is_whole: bool = False,
) -> None:
    """channel_names: channels of the file, refused ones too; those need no second complaint."""
    batch = RowBatch(CostPrice, COST_PRICE_IDENTITY)
    channels = dict(Channel.objects.values_list("name", "pk"))
    for path, entry in _once(entries, _cost_identity, findings):
        channel_id = channels.get(entry.channel)
        if channel_id is None:
            if entry.channel not in channel_names:
                reason = f"no such channel{did_you_mean(entry.channel, channels)}"
                findings.problem(f"{path}.channel", reason)
            continue
        what = f"cost price {entry.model} on {entry.channel}{_start(entry.effective_from)}"
        with findings.at(path):
            identity = (channel_id, entry.model, entry.effective_from)
            row = batch.open_row(*identity)
            new = _terms(entry, row, findings, what=what, is_whole=is_whole)
            if new is not None:
                batch.set(*identity, values=_columns(new))
    batch.write()


def group_multipliers_provision(
    entries: Iterable[tuple[str, GroupMultiplierEntry]], findings: Findings
) -> None:
    for path, entry in _once(entries, lambda entry: (entry.group, entry.effective_from), findings):
        with findings.at(path):
            _multiplier(entry, findings)


def _price_identity(entry: PriceEntry) -> tuple[object, ...]:
    return entry.model, entry.group, entry.effective_from


def _cost_identity(entry: CostPriceEntry) -> tuple[object, ...]:
    return entry.channel, entry.model, entry.effective_from


def _once(
    entries: Iterable[tuple[str, EntryT]], identity: Callable[[EntryT], object], findings: Findings
) -> Iterator[tuple[str, EntryT]]:
    """Two entries for one thing: which of them should count?"""
    seen: dict[object, str] = {}
    for path, entry in entries:
        first = seen.setdefault(identity(entry), path)
        if first == path:
            yield path, entry
        else:
            findings.problem(path, f"the same as {first}")


def _terms(
    entry: TermsEntry,
    row: PriceColumns | None,
    findings: Findings,
    *,
    what: str,
    is_whole: bool,
) -> PriceTerms | None:
    """What the row shall say; None = as it says already."""
    old = _EMPTY if row is None else price_terms(row)
    new = entry.terms() if is_whole else _laid_over(old, entry)
    before, after = _columns(old), _columns(new)
    changed = [name for name in TERM_NAMES if before[name] != after[name]]
    if row is None:
        findings.created(what, field_texts({name: after[name] for name in changed}))
    else:
        findings.compared(what, [change_text(name, before[name], after[name]) for name in changed])
    return new if row is None or changed else None


def _multiplier(entry: GroupMultiplierEntry, findings: Findings) -> None:
    row = GroupMultiplier.objects.filter(
        group=entry.group, effective_from=entry.effective_from, is_closed=False
    ).first()
    what = f"multiplier{_of_group(entry.group)}{_start(entry.effective_from)}"
    if row is None or row.multiplier != entry.multiplier:
        group_multiplier_set(
            group=entry.group, multiplier=entry.multiplier, effective_from=entry.effective_from
        )
    wanted = {"multiplier": entry.multiplier}
    if row is None:
        findings.created(what, field_texts(wanted))
    else:
        findings.compared(what, change_texts(row, differing(row, wanted)))


def _laid_over(old: PriceTerms, entry: TermsEntry) -> PriceTerms:
    """What the entry does not name stays."""
    new, given = entry.terms(), entry.model_fields_set
    return PriceTerms(
        parts=replace(old.parts, **{name: getattr(new.parts, name) for name in PART_NAMES if name in given}),
        tiers=new.tiers if "tiers" in given else old.tiers,
        image_rates=new.image_rates if "image_rates" in given else old.image_rates,
    )


def _columns(terms: PriceTerms) -> dict[str, object]:
    return price_columns(terms.parts, terms.tiers, terms.image_rates)


def _of_group(group: str) -> str:
    return f" of group {group}" if group else ""


def _start(effective_from: datetime.datetime) -> str:
    return "" if effective_from == ALWAYS else f" from {effective_from.isoformat()}"
