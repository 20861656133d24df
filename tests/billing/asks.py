"""What tests ask of an admission store, in few words."""

from billing.admission.open_record import AccountState, AdmissionAsk, LeaseAsk, RateAsk
from billing.admission.store import Checkpoint, OpenRestore, SettledRecord

EPOCH = "epoch-1"


def ask(request_id="r", *, account=0, hold=0, leases=(), rates=(), candidates=(), record=b"record"):
    """leases: (name, limit) pairs; rates: (name, limit, amount); candidates: lists of (name, limit)."""
    return AdmissionAsk(
        request_id=request_id,
        account_id=account,
        hold_nano=hold,
        leases=tuple(LeaseAsk(*one) for one in leases),
        rates=tuple(RateAsk(*one) for one in rates),
        candidates=tuple(tuple(LeaseAsk(*one) for one in group) for group in candidates),
        record=record,
    )


def lease_asks(*groups):
    return [[LeaseAsk(*one) for one in group] for group in groups]


def account(number, balance, seq=1):
    return AccountState(number, balance, seq)


def settled(request_id="r", account_id=0, amount=0, payload=b"settled"):
    return SettledRecord(request_id, payload, account_id, amount)


def checkpoint(request_id="r", account_id=0, hold=0, record=b"checkpoint"):
    return Checkpoint(request_id, account_id, hold, record)


def restore(request_id="r", account_id=0, hold=0, record=b"restored", *, leases=(), attempts=()):
    return OpenRestore(checkpoint(request_id, account_id, hold, record), tuple(leases), tuple(attempts))
