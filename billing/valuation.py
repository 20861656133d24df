"""From what the runtime reports to what a worker writes: usage charged, amount, operator's cost.

Counting tokens takes milliseconds: what comes without it is valued by `settled_at_once`, the rest in a
thread. Must not import: models.
"""

import logging

import msgspec

from billing.admission import SettledRecord
from billing.admission.open_record import Settlement
from billing.core.charging import NONE, QUICK_METHOD, REPORTED, ChargedUsage, charged_usage, quick_count
from billing.core.money import STORED_NANO_MAX
from billing.outcome_codec import settlement_encode
from billing.terms import Terms
from billing.tokenizer import tokens_count
from relay.core.estimate import METHOD, NO_EVIDENCE, Count, Evidence
from relay.core.outcomes import RequestOutcome

_logger = logging.getLogger(__name__)


class Reported(msgspec.Struct, frozen=True):
    """terms: None = the request was not admitted by this process's store and costs nothing."""

    outcome: RequestOutcome
    evidence: Evidence = NO_EVIDENCE
    terms: Terms | None = None
    account_id: int = 0
    charges_input_on_leave: bool = False

    def __repr__(self) -> str:
        """Without the evidence: it holds prompt and answer."""
        return f"Reported({self.outcome!r})"


class _CountingDue(Exception):
    """Raised by the counter of `settled_at_once`."""


def settled_at_once(reported: Reported) -> SettledRecord | None:
    """None where tokens must be counted: `settled_record`, in a thread. Microseconds, never raises."""
    try:
        return settled_record(reported, count=_not_now)
    except _CountingDue:
        return None


def settled_record(reported: Reported, *, count: Count = tokens_count) -> SettledRecord:
    """Never raises: what cannot be counted is estimated by its size, what cannot be valued costs nothing.

    One outcome that could not leave the courier would hold up all behind it.
    """
    try:
        settlement = settlement_of(reported, count=count)
    except _CountingDue:
        raise
    except Exception as error:  # noqa: BLE001  a bug of ours: told, and recorded without an amount
        kind = type(error).__name__
        _logger.error("an outcome could not be valued and costs nothing: %s", kind)  # noqa: TRY400  no message
        settlement = Settlement(outcome=reported.outcome)
    return SettledRecord(
        reported.outcome.request_id,
        settlement_encode(settlement),
        reported.account_id,
        min(settlement.amount_nano, STORED_NANO_MAX),  # the settlement itself has all of it
    )


def settlement_of(reported: Reported, *, count: Count = tokens_count) -> Settlement:
    outcome, terms = reported.outcome, reported.terms
    charged = _counted(reported, count) if _is_priced(reported) else _as_reported(outcome)
    if terms is None:
        return Settlement(outcome=outcome, usage_source=charged.source)
    is_answered = any(attempt.committed for attempt in outcome.attempts)
    return Settlement(
        outcome=_with_usage(outcome, charged),
        price_id=terms.price.id if terms.price else None,
        multiplier_id=terms.multiplier.id if terms.multiplier else None,
        amount_nano=terms.charge_nano(charged, is_answered=is_answered),
        usage_source=charged.source,
        usage_method=charged.method,
        operator_costs_nano=terms.operator_costs(outcome, charged),
    )


def _is_priced(reported: Reported) -> bool:
    return reported.terms is not None and reported.terms.price is not None


def _as_reported(outcome: RequestOutcome) -> ChargedUsage:
    """For what nobody pays: nothing is estimated."""
    return ChargedUsage(outcome.usage, NONE if outcome.usage is None else REPORTED)


def _counted(reported: Reported, count: Count) -> ChargedUsage:
    try:
        return _charged(reported, count, QUICK_METHOD if count is quick_count else METHOD)
    except _CountingDue:
        raise
    except Exception as error:  # noqa: BLE001  a charge by size is better than an outcome that never settles
        _logger.warning("tokens could not be counted: %s", type(error).__name__)
        return _charged(reported, quick_count, QUICK_METHOD)


def _charged(reported: Reported, count: Count, method: str) -> ChargedUsage:
    return charged_usage(
        reported.outcome,
        reported.evidence,
        count,
        method=method,
        charges_input_on_leave=reported.charges_input_on_leave,
    )


def _with_usage(outcome: RequestOutcome, charged: ChargedUsage) -> RequestOutcome:
    if outcome.usage is charged.usage:
        return outcome
    return msgspec.structs.replace(outcome, usage=charged.usage)


def _not_now(_text: str) -> int:
    raise _CountingDue
