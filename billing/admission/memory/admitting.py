"""Deciding about a request that wants to run, or to try once more. The caller holds the store's lock."""

from collections.abc import Sequence

from billing.admission.memory.book import Book
from billing.admission.memory.rates import Rates
from billing.admission.memory.record import Record
from billing.admission.open_record import (
    LEASE_RETRY_S,
    NO_CANDIDATE,
    AccountUnknown,
    Admission,
    AdmissionAsk,
    Admitted,
    LeaseAsk,
    RateAsk,
    RefusedBalance,
    RefusedLimit,
)
from billing.admission.store import ADMISSION_HOLDER


def admit(book: Book, rates: Rates, epoch: str, ask: AdmissionAsk, now: float) -> Admission:
    """Tested in this order: account, leases, rates, balance, candidates."""
    record = book.records.get(ask.request_id)
    if record is not None:
        return Admitted(record.candidate, book.accounts.available(record.account_id) or 0)
    available = book.accounts.available(ask.account_id) if ask.account_id else 0
    if available is None:
        return AccountUnknown()
    refused = _leases_refused(book, ask.leases, now) or _rates_refused(rates, ask.rates, now)
    if refused is not None:
        return refused
    if ask.account_id and ask.hold_nano > max(available, 0):
        return RefusedBalance(ask.hold_nano, available)
    candidate = _choose(book, ask.candidates, (ask.request_id, ""), now) if ask.candidates else -1
    if ask.candidates and candidate < 0:
        return NO_CANDIDATE
    _take(book, epoch, ask, candidate, now)
    for rate in ask.rates:
        rates.add(rate.name, rate.amount, now)
    return Admitted(candidate, available - ask.hold_nano if ask.account_id else 0)


def candidate_lease(
    book: Book, request_id: str, holder: str, candidates: Sequence[Sequence[LeaseAsk]], now: float
) -> int | RefusedLimit:
    """What the holder had before is replaced, so that a repeat takes nothing twice."""
    record = book.running(request_id)
    if record is None or not candidates:
        return 0
    candidate = _choose(book, candidates, (request_id, holder), now)
    if candidate < 0:
        return NO_CANDIDATE
    book.drop_leases(record, holder)
    book.take_leases(record, holder, [ask.name for ask in candidates[candidate]])
    return candidate


def hold_raise(book: Book, record: Record, hold_nano: int) -> bool:
    """False, and nothing changed, when the balance does not cover a higher hold.

    An account the store does not know (any more) covers it: what runs goes on.
    """
    available = book.accounts.available(record.account_id)
    raised = hold_nano - record.open_nano
    if raised > 0 and available is not None and raised > available:
        return False
    book.set_open(record, record.account_id, hold_nano)
    return True


def _take(book: Book, epoch: str, ask: AdmissionAsk, candidate: int, now: float) -> None:
    record = Record(ask.request_id, ask.account_id, ask.record, ask.hold_nano, candidate=candidate)
    book.run(record, epoch, now)
    book.take_leases(record, ADMISSION_HOLDER, [lease.name for lease in ask.leases])
    if candidate >= 0:
        book.take_leases(record, "", [lease.name for lease in ask.candidates[candidate]])


def _leases_refused(book: Book, leases: Sequence[LeaseAsk], now: float) -> RefusedLimit | None:
    full = book.leases.first_full(leases)
    if full is not None:
        book.bury(now)
        full = book.leases.first_full(leases)
    return None if full is None else RefusedLimit(full.name, full.limit, LEASE_RETRY_S)


def _rates_refused(rates: Rates, asks: Sequence[RateAsk], now: float) -> RefusedLimit | None:
    for ask in asks:
        if retry_after_s := rates.retry_after_s(ask, now):
            return RefusedLimit(ask.name, ask.limit, retry_after_s)
    return None


def _choose(book: Book, candidates: Sequence[Sequence[LeaseAsk]], own: tuple[str, str], now: float) -> int:
    """Places that dead processes held are looked for only if none is free."""
    candidate = book.leases.choose(candidates, own)
    if candidate < 0:
        book.bury(now)
        candidate = book.leases.choose(candidates, own)
    return candidate
