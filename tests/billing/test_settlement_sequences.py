"""Any sequence of settling, repeating, dying and crashing between any two steps: every cent once.

The store is the one of the embedded mode, with a clock of the test's; the worker is this thread. A crash is an
exception that nothing catches: the transaction is rolled back, the claim stays until it runs out.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from billing import tasks
from billing.admission import SettledRecord
from billing.admission.memory import MemoryStore
from billing.admission.open_record import AccountState, AdmissionAsk, Admitted, RefusedBalance
from billing.models import Account, DeadOutcome, RelayRequest
from billing.outcome_codec import open_record_encode, settlement_encode
from billing.services import booking, reconciling
from billing.services.ledger import account_top_up
from tests.billing.books import assert_books_balance
from tests.factories.billing import Owner, open_record_make, owner_make, request_id_make, settlement_make

pytestmark = pytest.mark.django_db

HOLD = 1_000
STEPS = (
    (booking, "rows_insert_new"),
    (booking, "rows_insert"),
    (booking, "accounts_lock"),
    (booking, "entries_post"),
    (booking, "rollups_add"),
    (tasks, "settled_records_write"),
    (reconciling, "abandoned_records_write"),
    (None, "claim"),
    (None, "acknowledge"),
    (None, "claim_abandoned"),
    (None, "acknowledge_abandoned"),
)
OF_RECONCILING = {"abandoned_records_write", "claim_abandoned", "acknowledge_abandoned"}
"""Steps that writing settled records alone does not come to."""


class Crash(BaseException):
    """kill -9, as far as one thread can have it."""


class Rollback(Exception):
    """Ends an example without a trace."""


@dataclass
class Request:
    owner: Owner
    request_id: str
    checkpoint_nano: int
    amount_nano: int
    is_settled: bool = False


@dataclass
class World:
    """Two tenants, a gateway that dies at times, and a worker that does."""

    monkeypatch: pytest.MonkeyPatch
    now: float = 1_000.0
    owners: list[Owner] = field(default_factory=lambda: [owner_make(), owner_make()])
    requests: list[Request] = field(default_factory=list)
    epoch: int = 0
    store: MemoryStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = MemoryStore(lambda: self.now)
        self.monkeypatch.setattr(tasks, "open_records", lambda: self.store.workers)
        for owner in self.owners:
            account_top_up(
                tenant_id=owner.tenant.pk,
                operation=request_id_make(),
                amount_nano=10**9,
                reason="r",
                actor="a",
            )
        self.store.workers.accounts_put(self.account_states())

    def account_states(self) -> list[AccountState]:
        rows = Account.objects.filter(tenant__in=[owner.tenant.pk for owner in self.owners])
        return [AccountState(row.tenant_id, row.balance_nano, row.account_seq) for row in rows]

    def admit(self, owner: int, checkpoint_nano: int, amount_nano: int) -> None:
        request = Request(self.owners[owner], request_id_make(), checkpoint_nano, amount_nano)
        record = open_record_make(request.owner, checkpoint_nano, request_id=request.request_id)
        ask = AdmissionAsk(
            request_id=request.request_id,
            account_id=request.owner.tenant.pk,
            hold_nano=HOLD,
            record=open_record_encode(record),
        )
        asyncio.run(self.store.beat(f"epoch-{self.epoch}"))
        assert isinstance(asyncio.run(self.store.admit(f"epoch-{self.epoch}", ask)), Admitted)
        self.requests.append(request)

    def settle(self, number: int) -> None:
        """Also one that was settled before, or was abandoned long ago."""
        if not self.requests:
            return
        request = self.requests[number % len(self.requests)]
        request.is_settled = True
        payload = settlement_encode(
            settlement_make(request.owner, request.amount_nano, request_id=request.request_id)
        )
        record = SettledRecord(request.request_id, payload, request.owner.tenant.pk, request.amount_nano)
        asyncio.run(self.store.settle([record]))

    def die(self) -> None:
        """The gateway is gone; its successor has another epoch."""
        self.epoch += 1
        self.wait(100)

    def wait(self, seconds: int = 35) -> None:
        """Claims run out, and epochs that nobody beats for. Workers are never silent: no grace begins."""
        for _ in range(seconds // 5):
            self.now += 5
            self.store.workers.beat()
            asyncio.run(self.store.beat(f"epoch-{self.epoch}"))

    def finish(self) -> None:
        """The gateway dies once more, and nothing fails any longer."""
        self.die()
        for _ in range(3):
            self.wait()
            tasks.reconcile_open_records()

    def judge(self) -> None:
        assert_books_balance()
        rows = {str(row.pk): row for row in RelayRequest.objects.all()}
        assert rows.keys() == {request.request_id for request in self.requests}
        for request in self.requests:
            row = rows[request.request_id]
            expected = (
                ("final", request.amount_nano)
                if request.is_settled
                else ("abandoned", request.checkpoint_nano)
            )
            assert (row.state, row.cost_nano) == expected
        assert DeadOutcome.objects.count() == 0
        assert self.store.workers.open_amounts() == {}
        counts = self.store.workers.counts()
        assert (counts.waiting, counts.claimed, counts.running) == (0, 0, 0)
        for state in self.account_states():
            ask = AdmissionAsk(
                request_id=request_id_make(), account_id=state.account_id, hold_nano=state.balance_nano + 1
            )
            refused = asyncio.run(self.store.admit("judge", ask))
            assert refused == RefusedBalance(state.balance_nano + 1, state.balance_nano)

    def work(self, task: Callable[[], None], step: int, is_after: bool, skip: int) -> bool:
        """skip: so many passages of the step go well before it crashes. Whether it came to that."""
        try:
            with self.crash(*STEPS[step], is_after=is_after, skip=skip):
                task()
        except Crash:
            return True
        return False

    @contextmanager
    def crash(self, module: object, name: str, *, is_after: bool, skip: int) -> Iterator[None]:
        target = module or self.store.workers
        original, passages = getattr(target, name), iter(range(10**9))

        def passing(*args: object, **named: object) -> object:
            is_now = next(passages) == skip
            if is_now and not is_after:
                raise Crash
            answer = original(*args, **named)
            if is_now:
                raise Crash
            return answer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(target, name, passing)
            yield


amounts = st.sampled_from([0, 1, 7, 250, 999])
actions = st.one_of(
    st.tuples(st.just("admit"), st.integers(0, 1), amounts, amounts),
    st.tuples(st.just("settle"), st.integers(0, 20)),
    st.tuples(st.just("die")),
    st.tuples(st.just("wait")),
    st.tuples(
        st.just("work"),
        st.sampled_from([tasks.record_settled, tasks.reconcile_open_records]),
        st.integers(0, len(STEPS) - 1),
        st.booleans(),
        st.integers(0, 2),
    ),
)


@hypothesis_settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plan=st.lists(actions, min_size=3, max_size=25))
def test_whatever_happens_every_request_is_charged_once(monkeypatch, plan):
    with contextlib.suppress(Rollback), transaction.atomic():
        world = World(monkeypatch)
        for name, *arguments in plan:
            getattr(world, name)(*arguments)
        world.finish()
        world.judge()
        raise Rollback


@pytest.mark.parametrize(
    ("task", "step"),
    [
        pytest.param(task, step, id=f"{task.name}-{name}")
        for task in (tasks.reconcile_open_records, tasks.record_settled)
        for step, (_, name) in enumerate(STEPS)
        if task is tasks.reconcile_open_records or name not in OF_RECONCILING
    ],
)
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_a_crash_at_each_step(monkeypatch, task, step, is_after):
    """The same, one step at a time, each with a settled, a late and an abandoned request."""
    world = World(monkeypatch)
    world.admit(0, 7, 250)
    world.die()
    tasks.reconcile_open_records()
    world.admit(0, 1, 999)
    world.admit(1, 250, 7)
    world.die()
    world.admit(1, 0, 1)
    world.settle(0)
    world.settle(3)
    assert world.work(task, step, is_after, 0), "it went well"
    world.wait()
    task()
    world.finish()
    world.judge()
