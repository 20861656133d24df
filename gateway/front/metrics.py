"""`/metrics`: counters of every serving process, for Prometheus.

Closed by default: it is there only when `METRICS_TOKEN` is set, and needs that token. With several workers
each writes to files in one directory, and whichever worker is asked adds them up; gauges of a worker that was
killed are taken out before each scrape, for nobody else does. What a Celery worker counts is not here: a
worker has no such page. The ledger's drifts, which a worker finds, are therefore read from their rows, and
how many settled requests wait for a worker is asked of the admission store.
"""

import asyncio
import contextlib
import hmac
import os
import shutil
from pathlib import Path

from django.conf import settings
from django.db import Error as AnyDatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest, multiprocess

from billing.admission import StoreUnavailable, open_records
from billing.metrics import LEDGER_DRIFTS
from billing.selectors.drifts import drifts_standing
from gateway import wiring
from gateway.metrics import SETTLED_OLDEST, SETTLED_WAITING

DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def share_between_workers(directory: Path) -> None:
    """In the parent, before any worker starts: an empty directory that all of them will write to."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700, parents=True)
    os.environ[DIRECTORY_VARIABLE] = str(directory)


async def metrics(request: HttpRequest) -> HttpResponse:
    """404 without a configured token, 401 with another one."""
    if not settings.METRICS_TOKEN:
        raise Http404
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(given.encode(), settings.METRICS_TOKEN.encode()):
        response = HttpResponse("A bearer token is needed.\n", status=401, content_type="text/plain")
        response["WWW-Authenticate"] = "Bearer"
        return response
    if wiring.is_ready():
        await asyncio.gather(_look_at_the_ledger(), _look_at_the_store())
    return HttpResponse(_exposition(), content_type=CONTENT_TYPE_LATEST)


async def _look_at_the_ledger() -> None:
    """A database that is away leaves the last known number: its own alarm is louder."""
    with contextlib.suppress(AnyDatabaseError):
        LEDGER_DRIFTS.set(await wiring.current().threads.read(drifts_standing))


async def _look_at_the_store() -> None:
    """One that is away leaves the last known numbers, ditto."""
    with contextlib.suppress(StoreUnavailable):
        counts = await asyncio.to_thread(open_records().counts)
        SETTLED_WAITING.set(counts.waiting)
        SETTLED_OLDEST.set(counts.oldest_waiting_s)


def _exposition() -> bytes:
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if not directory:
        return generate_latest(REGISTRY)
    for pid in _written_by(Path(directory)):
        if not _is_alive(pid):
            multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]  # the library has no types here
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # ditto
    return generate_latest(registry)


def _written_by(directory: Path) -> set[int]:
    """Files are named after their metric's kind and their process: `gauge_livesum_123.db`."""
    numbers = (file.stem.rpartition("_")[2] for file in directory.glob("*.db"))
    return {int(number) for number in numbers if number.isdigit()}


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
