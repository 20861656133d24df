"""Prices of a file: known by model, group and the time from which they count."""

import datetime
from collections.abc import Iterable
from dataclasses import fields, replace
from decimal import Decimal

from billing.core.prices import PriceParts
from billing.models import Price
from billing.services.prices import price_parts, price_set
from gateway.provisioning.compare import change_text, field_texts
from gateway.provisioning.findings import Findings
from gateway.provisioning.schema import ALWAYS, PriceEntry

PART_NAMES = tuple(field.name for field in fields(PriceParts))


def prices_provision(entries: Iterable[tuple[str, PriceEntry]], findings: Findings) -> None:
    """entries: path in the file, entry."""
    seen: dict[tuple[str, str, datetime.datetime], str] = {}
    for path, entry in entries:
        identity = (entry.model, entry.group, entry.effective_from)
        if identity in seen:
            findings.problem(path, f"the same price as {seen[identity]}")
            continue
        seen[identity] = path
        with findings.at(path):
            _provision(path, entry, findings)


def _provision(path: str, entry: PriceEntry, findings: Findings) -> None:
    given: dict[str, Decimal | None] = {
        name: getattr(entry, name) for name in PART_NAMES if name in entry.model_fields_set
    }
    row = Price.objects.filter(
        model=entry.model, group=entry.group, effective_from=entry.effective_from, is_closed=False
    ).first()
    old = PriceParts() if row is None else price_parts(row)
    new = replace(old, **given)
    if row is None and new == PriceParts():
        findings.problem(path, f"a new price needs at least one of {', '.join(PART_NAMES)}")
        return
    texts = [
        change_text(name, getattr(old, name), value)
        for name, value in given.items()
        if getattr(old, name) != value
    ]
    if row is None or texts:
        price_set(model=entry.model, group=entry.group, effective_from=entry.effective_from, parts=new)
    if row is None:
        findings.created(_what(entry), field_texts(given))
    else:
        findings.compared(_what(entry), texts)


def _what(entry: PriceEntry) -> str:
    group = f" of group {entry.group}" if entry.group else ""
    start = "" if entry.effective_from == ALWAYS else f" from {entry.effective_from.isoformat()}"
    return f"price {entry.model}{group}{start}"
