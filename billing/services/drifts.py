"""Keeping what the ledger's check found, so that people see it, once, until it is right again."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from billing.models import DriftKind, LedgerDrift

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """place: see `LedgerDrift`. account_id: None for a tenant without an account."""

    kind: DriftKind
    place: str
    expected: str
    found: str
    account_id: int | None


def drifts_keep(kind: DriftKind, findings: Sequence[Finding], *, checked: Q | None) -> None:
    """Findings become rows, or are seen once more; what was found before and is right now is resolved.

    checked: which rows of this kind the findings speak about; None = all.
    """
    with transaction.atomic():
        standing = LedgerDrift.objects.filter(checked or Q(), kind=kind, resolved_at=None)
        places = {finding.place for finding in findings}
        standing.exclude(place__in=places).update(resolved_at=Now())
        for finding in findings:
            _keep(finding)


def _keep(finding: Finding) -> None:
    row, created = LedgerDrift.objects.get_or_create(
        kind=finding.kind,
        place=finding.place,
        resolved_at=None,
        defaults={"expected": finding.expected, "found": finding.found, "account_id": finding.account_id},
    )
    if created:
        _logger.error(
            "ledger drift (%s) at %s: expected %s, found %s",
            finding.kind,
            finding.place,
            finding.expected,
            finding.found,
        )
    else:
        LedgerDrift.objects.filter(pk=row.pk).update(
            seen_at=Now(), expected=finding.expected, found=finding.found
        )
