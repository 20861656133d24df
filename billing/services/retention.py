"""Old requests go, in batches, with their attempts and usage. Ledger and roll-ups stay for ever."""

import datetime
import time
from collections.abc import Iterator
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from billing import metrics
from billing.admission import OpenRecords
from billing.models import LookupState, RelayRequest, RequestState, UsageLookup
from billing.services.ledger_entries import database_now
from channels_admin.flags import flag_values
from channels_admin.models import RuntimeFlag

_BATCH = 500
_BUDGET_S = 2.0
_SETTLED_MAX = 5_000


def requests_delete_old(store: OpenRecords, *, budget_s: float = _BUDGET_S) -> int:
    """Deletes final requests recorded longer ago than `RETENTION_DAYS`; how many. The next run goes on.

    Not those the store still holds: they are not acknowledged. With a store that holds very many, or does not
    answer, nothing is deleted. Errors: StoreUnavailable, those of `django.db`.
    """
    deadline = time.monotonic() + budget_s
    held = store.settled_ids(_SETTLED_MAX)
    if len(held) >= _SETTLED_MAX:
        return 0
    deleted = 0
    for keys in _old(_cutoff(), frozenset(held)):
        RelayRequest.objects.filter(_deletable(), pk__in=keys).delete()
        deleted += len(keys)
        metrics.DELETED.inc(len(keys))
        if time.monotonic() > deadline:
            break
    return deleted


def _old(cutoff: datetime.datetime, held: frozenset[str]) -> Iterator[list[UUID]]:
    """Batches in the order of ids, which begin with the time they were made: no index beside the key's."""
    last, end = UUID(int=0), UUID(int=int(cutoff.timestamp() * 1000) << 80)
    rows = RelayRequest.objects.filter(_deletable(), pk__lt=end, recorded_at__lt=cutoff)
    while keys := list(rows.filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[:_BATCH]):
        last = keys[-1]
        yield [key for key in keys if str(key) not in held]


def _deletable() -> Q:
    """Not what an outcome may still replace, or an upstream correct."""
    pending = UsageLookup.objects.filter(request_id=OuterRef("pk"), state=LookupState.PENDING)
    return Q(~Exists(pending), state=RequestState.FINAL)


def _cutoff() -> datetime.datetime:
    days = flag_values(dict(RuntimeFlag.objects.values_list("name", "value")))["RETENTION_DAYS"]
    if not isinstance(days, int):
        raise TypeError("RETENTION_DAYS is no number")
    return database_now() - datetime.timedelta(days=days)
