"""`manage.py where ID`: every place is asked, none of them quoted."""

import asyncio
import io
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command

from billing import admission
from billing.admission import SettledRecord, StoreUnavailable
from billing.admission.memory import MemoryStore
from billing.admission.mirror import Mirror
from billing.admission.open_record import AdmissionAsk
from billing.models import DeadOutcome, OpenRecordRow
from billing.outcome_codec import open_record_encode, settlement_encode
from billing.selectors import whereabouts as selector
from billing.services.ledger import account_refund
from billing.services.requests import requests_record
from billing.spool import spool_write
from tests.factories.billing import open_record_make, owner_make, request_id_make, settlement_make

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def embedded(settings, tmp_path):
    settings.REDIS_URL = ""
    settings.DATA_DIR = tmp_path


@pytest.fixture
def owner():
    return owner_make()


def where(request_id: str) -> str:
    out = io.StringIO()
    call_command("where", request_id, stdout=out)
    return out.getvalue()


def test_a_written_request(owner):
    late = open_record_make(owner, 1_500_000_000)
    request_id = late.draft.request_id
    requests_record([late])
    requests_record([settlement_make(owner, 2_000_000_000, request_id=request_id)])
    account_refund(request_id=UUID(request_id), operation="op", amount_nano=10**9, reason="r", actor="a")
    text = where(request_id.upper().replace("-", ""))
    assert text.startswith(f"request {request_id}\n")
    assert f"row: final, completed, status 200, tenant {owner.tenant.name}, 2.00 USD, attempts 1" in text
    assert f"ledger: charge:{request_id}: -1.50 USD, entry 1" in text
    assert f"ledger: correction:{request_id}:late_outcome: -0.50 USD, entry 2" in text
    assert "ledger: refund:op: 1.00 USD, entry 3" in text
    assert "ledger: 1.00 USD left to refund" in text
    for absent in ("store", "mirror", "dead outcome", "spool"):
        assert f"{absent}:" not in text


def test_by_an_upstreams_id(owner):
    settlement = settlement_make(owner, 1)
    requests_record([settlement])
    assert settlement.outcome.request_id in where("req_upstream")


def test_what_is_not_written_yet(owner, tmp_path):
    settlement = settlement_make(owner, 5)
    request_id, payload = settlement.outcome.request_id, settlement_encode(settlement)
    DeadOutcome.objects.create(request_id=request_id, payload=payload, error_class="DataError")
    path = spool_write(tmp_path, [SettledRecord(request_id, payload)])
    spool_write(tmp_path, [SettledRecord(request_id_make(), payload)])
    text = where(request_id)
    assert "dead outcome: DataError, 1 failures, not written" in text
    assert text.count("spool:") == 1
    assert f"spool: {path.name}" in text
    assert "client_request_id" not in text
    assert "gpt-4o" not in text


@pytest.mark.django_db(transaction=True)
def test_what_another_process_mirrors(owner):
    settlement, record = settlement_make(owner, 5), open_record_make(owner, 250_000_000)
    done, running = settlement.outcome.request_id, record.draft.request_id
    store = MemoryStore()
    mirror = Mirror(store.mirror_source)
    mirror.start()
    ask = AdmissionAsk(request_id=running, account_id=0, record=open_record_encode(record))
    asyncio.run(store.admit("epoch-1", ask))
    asyncio.run(store.settle([SettledRecord(done, settlement_encode(settlement))]))
    assert mirror.stop()
    assert f"mirror: settled, completed, tenant {owner.tenant.pk}" in where(done)
    assert f"mirror: running, tenant {owner.tenant.pk}, 0.25 USD so far" in where(running)


def test_a_mirrored_record_that_cannot_be_read_is_told(owner):
    request_id = request_id_make()
    OpenRecordRow.objects.create(request_id=request_id, state="settled", epoch="", payload=b"\xff")
    assert "mirror: settled, 1 bytes that cannot be read" in where(request_id)


def test_spools_that_cannot_be_read_whole_are_logged_and_the_others_are_searched(owner, tmp_path, caplog):
    settlement = settlement_make(owner, 5)
    request_id = settlement.outcome.request_id
    requests_record([settlement])
    (tmp_path / "outcomes-0-odd.spool").mkdir()
    (tmp_path / "outcomes-0-empty.damaged").touch()
    records = [SettledRecord(request_id_make(), b""), SettledRecord(request_id, b"")]
    whole, cut = spool_write(tmp_path, records), spool_write(tmp_path, records)
    cut.write_bytes(cut.read_bytes()[:-1])
    cut.rename(cut.with_suffix(".damaged"))
    assert [line for line in where(request_id).splitlines() if "spool" in line] == [f"  spool: {whole.name}"]
    [line] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert line.startswith("2 spool files")
    assert "outcomes-0-odd.spool" in line
    assert cut.with_suffix(".damaged").name in line


@pytest.mark.parametrize(
    "request_id", ["", "x", "' OR 1=1", "0" * 500, "00000000-0000-0000-0000-000000000000"]
)
def test_what_nobody_knows(request_id):
    with pytest.raises(CommandError, match="nobody knows"):
        where(request_id)


@pytest.fixture
def with_redis(settings, monkeypatch):
    """The store is another process's; which one does not matter here."""
    settings.REDIS_URL = "redis://elsewhere"
    store = admission.memory_store.__wrapped__()
    monkeypatch.setattr(selector, "open_records", lambda: store.workers)
    return store


def test_what_the_store_holds(with_redis, owner):
    record = open_record_make(owner, 250_000_000)
    request_id = record.draft.request_id
    ask = AdmissionAsk(request_id=request_id, account_id=0, record=open_record_encode(record))
    asyncio.run(with_redis.admit("epoch-1", ask))
    assert f"store: running, process epoch epoch-1, tenant {owner.tenant.pk}, 0.25 USD so far" in where(
        request_id
    )
    payload = settlement_encode(settlement_make(owner, 10**9, request_id=request_id))
    asyncio.run(with_redis.settle([SettledRecord(request_id, payload)]))
    assert f"store: settled, completed, tenant {owner.tenant.pk}, charge 1.00 USD" in where(request_id)
    asyncio.run(with_redis.settle([SettledRecord(request_id, b"secret?")]))
    text = where(request_id)
    assert "7 bytes that cannot be read" in text
    assert "secret" not in text


def test_a_store_that_is_away_does_not_stop_the_rest(with_redis, owner, monkeypatch):
    settlement = settlement_make(owner, 5)
    requests_record([settlement])

    def away(request_id: str) -> None:
        raise StoreUnavailable("TimeoutError")

    monkeypatch.setattr(with_redis.workers, "state", away)
    text = where(settlement.outcome.request_id)
    assert "store: does not answer (TimeoutError)" in text
    assert "row: final" in text
