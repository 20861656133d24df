"""Which charges an upstream may still put right, and when it is asked: planned, claimed, given up.

An estimated charge is worth asking about where the answer's channel is of a kind that tells usage later.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import F

from billing import metrics
from billing.models import Attempt, LookupState, RequestState, UsageLookup
from billing.services.guarded_insert import rows_insert
from billing.services.ledger_entries import database_now
from billing.services.outcome_rows import RequestRows
from billing.services.rollups import answering_attempt
from channels_admin.models import Channel
from relay.core.upstream_kinds import KINDS_THAT_TELL_USAGE_LATER

FIRST_S = 30.0
"""After try number n comes a wait of `FIRST_S` · 2^n."""
TRIES_MAX = 8
CLAIM_MAX = 20


@dataclass(frozen=True, slots=True)
class ClaimedLookup:
    """One try, begun by whoever got this value. tries: this one included."""

    request_id: UUID
    channel_id: int
    upstream_key_id: int
    answer_id: str
    tries: int


def usage_lookups_plan(batch: Sequence[RequestRows]) -> None:
    """Of requests written in the caller's transaction, each for the first time. Without any to ask about it
    costs nothing.
    """
    askable = {one.request.pk: attempt for one in batch if (attempt := _askable_attempt(one)) is not None}
    if not askable:
        return
    channels = Channel.objects.filter(
        pk__in={attempt.channel_id for attempt in askable.values()}, kind__in=KINDS_THAT_TELL_USAGE_LATER
    )
    telling = set(channels.values_list("pk", flat=True))
    due_at = database_now() + datetime.timedelta(seconds=FIRST_S)
    rows_insert([_lookup(key, one, due_at) for key, one in askable.items() if one.channel_id in telling])


def usage_lookups_claim(*, limit: int = CLAIM_MAX) -> list[ClaimedLookup]:
    """Begins a try of each that is due; no other claim gets them before their next one is.

    A try of which nothing more is heard, its process being dead, was one all the same.
    """
    now = database_now()
    pending = UsageLookup.objects.filter(state=LookupState.PENDING, due_at__lte=now)
    claims = (_claim(row, now) for row in pending.order_by("due_at")[:limit])
    return [claim for claim in claims if claim is not None]


def usage_lookup_failed(lookup: ClaimedLookup, *, error_class: str) -> None:
    """The try told nothing; the last one ends it."""
    _note(lookup.request_id, lookup.tries, error_class)


def _claim(row: UsageLookup, now: datetime.datetime) -> ClaimedLookup | None:
    if row.tries >= TRIES_MAX:
        _note(row.pk, row.tries, "interrupted")
        return None
    tries = row.tries + 1
    wait = datetime.timedelta(seconds=FIRST_S * 2**tries)
    unclaimed = UsageLookup.objects.filter(pk=row.pk, state=LookupState.PENDING, tries=row.tries)
    if not unclaimed.update(tries=F("tries") + 1, due_at=now + wait):
        return None
    return ClaimedLookup(row.pk, row.channel_id, row.upstream_key_id, row.answer_id, tries)


def _note(request_id: UUID, tries: int, error_class: str) -> None:
    is_last = tries >= TRIES_MAX
    row = UsageLookup.objects.filter(pk=request_id, state=LookupState.PENDING, tries=tries)
    state = LookupState.GIVEN_UP if is_last else LookupState.PENDING
    if row.update(state=state, error_class=error_class[:200]) and is_last:
        metrics.USAGE_LOOKUPS.labels("given_up").inc()


def _askable_attempt(one: RequestRows) -> Attempt | None:
    """Pictures may be paid by their size, which is not recorded: what they cost cannot be worked out anew."""
    request = one.request
    if not request.estimated or request.state != RequestState.FINAL or request.price_id is None:
        return None
    attempt = answering_attempt(one.attempts)
    is_askable = attempt is not None and attempt.answer_id and attempt.upstream_key_id is not None
    return attempt if is_askable and not one.usage.images else None


def _lookup(request_id: UUID, attempt: Attempt, due_at: datetime.datetime) -> UsageLookup:
    assert attempt.upstream_key_id is not None  # noqa: S101  `_askable_attempt` has looked
    return UsageLookup(
        request_id=request_id,
        channel_id=attempt.channel_id,
        upstream_key_id=attempt.upstream_key_id,
        answer_id=attempt.answer_id,
        due_at=due_at,
    )
