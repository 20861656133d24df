"""`/metrics`: closed by default, and what it tells."""

import pytest
from django.db.models.functions import Now

from billing.admission import SettledRecord, admission_port, open_records
from billing.models import DriftKind, LedgerDrift
from gateway.front.metrics import share_between_workers

TOKEN = "m" * 32


async def scrape(gateway, token: str | None):
    headers = [("Authorization", f"Bearer {token}")] if token else []
    return await gateway.ask("GET", "/metrics", *headers, key=None)


async def test_without_a_configured_token_there_is_no_such_page(gateway):
    assert (await scrape(gateway, None)).status == 404
    assert (await gateway.ask("GET", "/metrics")).status == 404


@pytest.mark.parametrize("given", [None, "wrong", "m" * 31])
async def test_another_token_is_refused(gateway, settings, given):
    settings.METRICS_TOKEN = TOKEN
    heard = await scrape(gateway, given)
    assert heard.status == 401
    assert b"sluice" not in heard.body


async def test_requests_are_counted_by_their_end(gateway, settings):
    settings.METRICS_TOKEN = TOKEN

    async def completed() -> float:
        lines = (await scrape(gateway, TOKEN)).body.decode().splitlines()
        [line] = [one for one in lines if one.startswith('sluice_requests_total{end_reason="completed"}')]
        return float(line.rpartition(" ")[2])

    before = await completed()
    for _ in range(2):
        await gateway.chat("echo-0")
    await gateway.recorded()
    assert await completed() == before + 2


async def test_drifts_that_another_process_found_are_told(gateway, settings):
    settings.METRICS_TOKEN = TOKEN
    found = {"kind": DriftKind.ROLLUP, "expected": "1", "found": "2"}
    await gateway.run(lambda: [LedgerDrift.objects.create(place=place, **found) for place in ("a", "b")])
    assert b"sluice_ledger_drifts 2.0" in (await scrape(gateway, TOKEN)).body
    await gateway.run(lambda: LedgerDrift.objects.filter(place="a").update(resolved_at=Now()))
    assert b"sluice_ledger_drifts 1.0" in (await scrape(gateway, TOKEN)).body


async def test_what_no_worker_has_taken_up_is_told(gateway, settings):
    settings.METRICS_TOKEN = TOKEN

    async def waiting() -> bool:
        page = (await scrape(gateway, TOKEN)).body
        return b"sluice_settled_waiting 1.0" in page and b"sluice_settled_oldest_seconds 0.0\n" not in page

    await admission_port().settle([SettledRecord("left-over", b"")])
    assert await waiting()
    open_records().acknowledge(["left-over"])
    assert not await waiting()


async def test_no_name_of_a_tenant_model_or_key_is_in_it(gateway, settings):
    settings.METRICS_TOKEN = TOKEN
    await gateway.chat("echo-0")
    page = (await scrape(gateway, TOKEN)).body.decode()
    for secret in (gateway.key, "echo-0", gateway.tenant.name + '"', "simulator"):
        assert secret not in page


def test_the_shared_directory_starts_empty_and_is_the_owner_s(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    folder = tmp_path / "metrics"
    folder.mkdir()
    (folder / "counter_1.db").write_bytes(b"old")
    share_between_workers(folder)
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700
