"""Writing outcomes: each exactly once, whatever is repeated, reordered or broken."""

import datetime
import threading
from uuid import UUID

import msgspec
import pytest
from django.db import DataError, IntegrityError, InterfaceError, OperationalError, connection
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from billing.admission import SettledRecord
from billing.models import Attempt, DeadOutcome, RelayRequest, UsageRecord, UsageSource
from billing.outcome_codec import outcome_decode, outcome_encode
from billing.services import booking, dead_outcomes
from billing.services.guarded_insert import rows_insert_new
from billing.services.outcome_rows import request_row
from billing.services.replay import dead_outcome_replay
from billing.services.settled_records import settled_records_write
from relay.core.end_reasons import EndReason
from relay.core.outcomes import AttemptOutcome, RequestOutcome
from relay.core.usage import TokenUsage
from tests.factories.billing import attempt_make, outcome_make, outcomes_record, owner_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner():
    return owner_make()


def columns_of(row, outcome, skip: set[str]) -> dict[str, tuple[object, object]]:
    names = {field.name for field in msgspec.structs.fields(outcome)} - skip
    return {name: (getattr(row, name), getattr(outcome, name)) for name in names}


def test_every_field_of_an_outcome_arrives(owner):
    outcome = outcome_make(owner)
    recording = outcomes_record([outcome])
    assert recording.new == {outcome.request_id}
    row = RelayRequest.objects.get()
    assert row.pk == UUID(outcome.request_id)
    compared = columns_of(row, outcome, {"request_id", "started_at", "usage", "attempts", "format_version"})
    assert {name: pair for name, pair in compared.items() if pair[0] != pair[1]} == {}
    assert row.started_at == datetime.datetime.fromtimestamp(1_800_000_000, datetime.UTC)
    assert row.state == "final"
    assert row.cost_nano == 0
    assert row.estimated is False
    assert abs(row.recorded_at - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(minutes=1)


def test_every_field_of_an_attempt_arrives(owner):
    first = attempt_make(
        channel_id=owner.channel.pk, end_reason=EndReason.HEADER_TIMEOUT, status=None, usage=None
    )
    second = attempt_make(channel_id=owner.channel.pk, number=2)
    outcome = outcome_make(owner, attempts=(first, second))
    outcomes_record([outcome])
    rows = list(Attempt.objects.order_by("number"))
    assert [row.number for row in rows] == [1, 2]
    special = {"started_at", "last_event_at", "finish_reasons", "soft_errors", "usage"}
    for row, attempt in zip(rows, (first, second), strict=True):
        compared = columns_of(row, attempt, special)
        assert {name: pair for name, pair in compared.items() if pair[0] != pair[1]} == {}
    assert rows[1].started_at.timestamp() == 1_800_000_000.25
    assert rows[1].last_event_at.timestamp() == 1_800_000_001.5
    assert rows[1].finish_reasons == ["stop"]
    assert rows[1].soft_errors == [{"error_class": "bad_event", "offset": 99}]
    assert rows[1].usage["input"] == 100
    assert rows[0].usage is None


@pytest.mark.parametrize(
    ("usage", "source"),
    [
        (TokenUsage(input=100, cached_input=40, output=20, reasoning=0), UsageSource.REPORTED),
        (TokenUsage(input=7), UsageSource.REPORTED),
        (None, UsageSource.NONE),
    ],
)
def test_one_usage_record_a_request_even_for_nothing(owner, usage, source):
    outcomes_record([outcome_make(owner, usage=usage)])
    row = UsageRecord.objects.get()
    assert row.source == source
    for field in msgspec.structs.fields(TokenUsage):
        assert getattr(row, field.name) == getattr(usage, field.name, None)


def test_a_repeated_batch_changes_nothing(owner):
    outcomes = [outcome_make(owner) for _ in range(5)]
    outcomes_record(outcomes)
    again = outcomes_record(list(reversed(outcomes)))
    assert again.new == frozenset()
    assert again.repeated == {outcome.request_id for outcome in outcomes}
    assert (RelayRequest.objects.count(), Attempt.objects.count(), UsageRecord.objects.count()) == (5, 5, 5)


def test_of_two_outcomes_of_one_request_the_first_counts(owner):
    first = outcome_make(owner, status=200)
    second = msgspec.structs.replace(first, status=502)
    assert outcomes_record([first, second]).new == {first.request_id}
    assert RelayRequest.objects.get().status == 200
    outcomes_record([second])
    assert RelayRequest.objects.get().status == 200
    assert Attempt.objects.count() == 1


def test_nothing_to_record():
    assert outcomes_record([]).new == frozenset()


def test_one_batch_costs_a_fixed_number_of_queries(owner, django_assert_max_num_queries):
    small, large = [outcome_make(owner)], [outcome_make(owner) for _ in range(100)]
    with django_assert_max_num_queries(15):
        outcomes_record(small)
    with django_assert_max_num_queries(25):  # SQLite writes at most some rows a statement
        outcomes_record(large)


@hypothesis_settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_order_and_repetition_gives_the_same_rows(owner, data):
    outcomes = [outcome_make(owner, status=200 + number) for number in range(6)]
    deliveries = data.draw(
        st.lists(st.lists(st.sampled_from(outcomes), max_size=8), max_size=6).map(
            lambda some: [*some, outcomes]
        )
    )
    new: list[str] = []
    for batch in deliveries:
        new += outcomes_record(data.draw(st.permutations(batch))).new
    keys = [UUID(outcome.request_id) for outcome in outcomes]
    assert sorted(new) == sorted(outcome.request_id for outcome in outcomes)
    written = RelayRequest.objects.filter(pk__in=keys)
    assert {row.pk: row.status for row in written} == dict(zip(keys, range(200, 206), strict=True))
    assert Attempt.objects.filter(request__in=keys).count() == 6
    assert UsageRecord.objects.filter(request__in=keys).count() == 6


def test_rows_insert_new_tells_which_were_new(owner):
    rows = [request_row(outcome_make(owner)) for _ in range(1201)]
    assert rows_insert_new(rows[:3]) == {row.pk for row in rows[:3]}
    assert rows_insert_new(rows) == {row.pk for row in rows[3:]}
    assert rows_insert_new([]) == frozenset()
    assert RelayRequest.objects.count() == 1201


@pytest.mark.parametrize(
    ("overrides", "field", "stored"),
    [
        ({"model_asked": "m" * 5000}, "model_asked", "m" * 200),
        ({"path": "/v1/" + "p" * 5000}, "path", "/v1/" + "p" * 496),
        ({"client_request_id": "a\x00b"}, "client_request_id", "ab"),
        (
            {"group": "Robert'); DROP TABLE billing_relayrequest;--"},
            "group",
            "Robert'); DROP TABLE billing_relayrequest;--",
        ),
        ({"model_asked": "100%s %d 模型"}, "model_asked", "100%s %d 模型"),
    ],
)
def test_foreign_text_cannot_fail_an_insert(owner, overrides, field, stored):
    outcomes_record([outcome_make(owner, **overrides)])
    assert getattr(RelayRequest.objects.get(), field) == stored


def test_foreign_text_in_attempts_is_bounded(owner):
    attempt = attempt_make(
        channel_id=owner.channel.pk,
        decision="d" * 5000,
        error_class="e\x00" * 900,
        finish_reasons=("f" * 500, "\x00"),
    )
    outcomes_record([outcome_make(owner, attempts=(attempt,))])
    row = Attempt.objects.get()
    assert len(row.decision) == 500
    assert row.error_class == "e" * 200
    assert row.finish_reasons == ["f" * 64, ""]


# ---- what cannot be written


@pytest.mark.parametrize(
    "broken",
    [
        {"request_id": "no uuid"},
        {"started_at": float("inf")},
        {"status": -1},
        {"attempts": (attempt_make(), attempt_make())},
    ],
    ids=["id", "time", "status", "attempt number twice"],
)
def test_one_bad_outcome_is_kept_apart_and_the_others_are_written(owner, broken, caplog):
    good = [outcome_make(owner) for _ in range(3)]
    bad = outcome_make(owner, **broken)
    recording = outcomes_record([good[0], bad, *good[1:]])
    assert recording.new == {outcome.request_id for outcome in good}
    assert recording.dead == {bad.request_id}
    assert RelayRequest.objects.count() == 3
    dead = DeadOutcome.objects.get()
    assert dead.request_id == bad.request_id
    assert outcome_decode(bytes(dead.payload)) == bad
    assert dead.error_class
    assert bad.request_id in caplog.text


@pytest.mark.django_db(transaction=True)
def test_an_outcome_of_an_unknown_tenant_is_kept_apart():
    """The database checks the reference when the transaction commits: outside a test's own one."""
    owner = owner_make()
    good = outcome_make(owner)
    bad = outcome_make(owner, tenant_id=10**9)
    recording = outcomes_record([good, bad])
    assert (recording.new, recording.dead) == ({good.request_id}, {bad.request_id})
    assert DeadOutcome.objects.get().error_class == "IntegrityError"


@pytest.mark.parametrize("error", [OperationalError("locked"), InterfaceError("gone")])
def test_transient_errors_are_the_callers_and_kill_nothing(owner, monkeypatch, error):
    def fail(rows):
        raise error

    monkeypatch.setattr(booking, "rows_insert_new", fail)
    with pytest.raises(type(error)):
        outcomes_record([outcome_make(owner)])
    assert DeadOutcome.objects.count() == 0


def test_a_transient_error_amid_single_writes_keeps_nothing_dead(owner, monkeypatch):
    calls = []

    def fail(rows):
        calls.append(len(rows))
        raise IntegrityError("batch") if len(calls) == 1 else OperationalError("deadlock")

    monkeypatch.setattr(booking, "rows_insert_new", fail)
    with pytest.raises(OperationalError):
        outcomes_record([outcome_make(owner), outcome_make(owner)])
    assert DeadOutcome.objects.count() == 0


def test_a_dead_outcome_that_fails_again_is_counted_once(owner):
    bad = outcome_make(owner, status=-1)
    outcomes_record([bad])
    outcomes_record([bad])
    dead = DeadOutcome.objects.get()
    assert dead.failures == 2
    assert dead_outcome_replay(dead) is False
    dead.refresh_from_db()
    assert dead.failures == 3
    assert dead.resolved_at is None


def test_replay_writes_once_the_cause_is_gone(owner, monkeypatch):
    outcome = outcome_make(owner)
    with monkeypatch.context() as patch:
        patch.setattr(booking, "rows_insert_new", lambda rows: 1 / 0)
        outcomes_record([outcome])
    dead = DeadOutcome.objects.get()
    assert dead.error_class == "ZeroDivisionError"
    assert dead_outcome_replay(dead) is True
    assert RelayRequest.objects.get().pk == UUID(outcome.request_id)
    assert DeadOutcome.objects.get().resolved_at is not None
    assert dead_outcome_replay(dead) is True
    assert RelayRequest.objects.count() == 1


def test_what_cannot_even_be_kept_stays_in_the_store(owner, monkeypatch, caplog):
    def fail(*args):
        raise DataError("value: secret")

    monkeypatch.setattr(dead_outcomes, "_keep", fail)
    good, bad = outcome_make(owner), outcome_make(owner, status=-1)
    recording = outcomes_record([bad, good])
    assert recording.new == {good.request_id}
    assert recording.dead == frozenset()
    records = [SettledRecord(item.request_id, outcome_encode(item)) for item in (good, bad)]
    records.append(SettledRecord("strange", b"?"))
    assert settled_records_write(records).done == {good.request_id}
    assert "secret" not in caplog.text


# ---- many workers


@pytest.mark.django_db(transaction=True)
def test_the_same_batch_in_two_threads_is_written_once():
    owner = owner_make()
    outcomes = [outcome_make(owner) for _ in range(150)]
    gate = threading.Barrier(2)
    results, errors = [], []

    def work(batch):
        try:
            gate.wait(5)
            results.append(outcomes_record(batch))
        except Exception as error:  # noqa: BLE001  told to the test's own thread
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(batch,)) for batch in (outcomes, list(reversed(outcomes)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    assert results[0].new | results[1].new == {outcome.request_id for outcome in outcomes}
    assert not results[0].new & results[1].new
    assert (RelayRequest.objects.count(), Attempt.objects.count(), UsageRecord.objects.count()) == (
        150,
        150,
        150,
    )


def test_models_have_a_column_for_every_field():
    """A field added to the outcome fails here until it is recorded."""
    request_columns = {field.name for field in RelayRequest._meta.get_fields()} | {
        "request_id",
        "tenant_id",
        "api_key_id",
    }
    assert {field.name for field in msgspec.structs.fields(RequestOutcome)} - {
        "format_version"
    } <= request_columns
    attempt_columns = {field.name for field in Attempt._meta.get_fields()} | {"channel_id"}
    assert {field.name for field in msgspec.structs.fields(AttemptOutcome)} <= attempt_columns
    usage_columns = {field.name for field in UsageRecord._meta.get_fields()}
    assert {field.name for field in msgspec.structs.fields(TokenUsage)} <= usage_columns
