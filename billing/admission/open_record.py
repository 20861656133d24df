"""What one running request holds: asked for at admission, kept in the store until its row is written.

Values only, encoded with msgspec. A record's states: running → settled → gone. Every change is an upsert by
request id, so a repeat, or a store that forgot, does no harm. Holds, leases and open amounts are nothing but
sums over open records. Must not import: Django, Redis.
"""

import msgspec

from relay.core.outcomes import RequestOutcome

RECORD_FORMAT = 1


class LeaseAsk(msgspec.Struct, frozen=True, gc=False):
    """One place under a ceiling. name: what is limited, e.g. `tenant:7`, `tenant:7:streams`, `channel:3`,
    `upstream_key:9`, `images`; limit: how many places there are, at least 1.
    """

    name: str
    limit: int


class RateAsk(msgspec.Struct, frozen=True, gc=False):
    """A share of what may start within a minute. name: e.g. `rpm:key:5`, `tpm:tenant:7`; amount: how much of
    `limit` this request takes (1, or its tokens as far as they are known).
    """

    name: str
    limit: int
    amount: int


class AdmissionAsk(msgspec.Struct, frozen=True, kw_only=True):
    """One atomic step takes all of it, or nothing.

    account_id: the tenant's id; 0 = nobody pays (no hold is checked). hold_nano: nano-dollars set aside.
    leases: all are needed, tested in their order. candidates: alternatives for the first attempt (channel,
    upstream key), in order: the first whose leases all have room is taken; empty = none is needed. record:
    the encoded `OpenRecord`, from which an abandoned request is billed.
    """

    request_id: str
    account_id: int
    hold_nano: int = 0
    leases: tuple[LeaseAsk, ...] = ()
    rates: tuple[RateAsk, ...] = ()
    candidates: tuple[tuple[LeaseAsk, ...], ...] = ()
    record: bytes = b""


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """candidate: index into `candidates`, -1 when there were none. available_nano: after the hold."""

    candidate: int = -1
    available_nano: int = 0


class RefusedLimit(msgspec.Struct, frozen=True, gc=False):
    """name: the lease or rate without room, "" = no candidate has any (limit 0); retry_after_s: from 1."""

    name: str
    limit: int
    retry_after_s: int


LEASE_RETRY_S = 1
NO_CANDIDATE = RefusedLimit("", 0, LEASE_RETRY_S)


class RefusedBalance(msgspec.Struct, frozen=True, gc=False):
    needed_nano: int
    available_nano: int


class AccountUnknown(msgspec.Struct, frozen=True, gc=False):
    """The store has not seen this account yet: load it (`accounts_put`) and ask again."""


Admission = Admitted | RefusedLimit | RefusedBalance | AccountUnknown


class AccountState(msgspec.Struct, frozen=True, gc=False):
    """A balance as of ledger entry `seq`; older ones than the store's are ignored."""

    account_id: int
    balance_nano: int
    seq: int


class OpenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Everything needed to book a request whose process died.

    draft: the outcome as of the last checkpoint, end reason `abandoned`: its usage is what arrived so far.
    price_id, multiplier_id: rows in force at admission; None = none. amount_nano: what the usage so far
    costs.
    """

    draft: RequestOutcome
    price_id: int | None = None
    multiplier_id: int | None = None
    amount_nano: int = 0
    is_estimated: bool = False
    usage_method: str = ""
    format_version: int = RECORD_FORMAT


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """A final outcome with its price: what a worker writes. amount_nano: what is charged, nano-dollars.

    usage of the outcome is what is charged for; usage_source: `reported`, `estimated` or `none`.
    operator_cost_nano: per attempt number, for channels with a cost price.
    """

    outcome: RequestOutcome
    price_id: int | None = None
    multiplier_id: int | None = None
    amount_nano: int = 0
    usage_source: str = "none"
    usage_method: str = ""
    operator_costs_nano: dict[int, int] = {}
    format_version: int = RECORD_FORMAT
