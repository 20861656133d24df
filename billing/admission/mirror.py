"""Keeps the in-process store's open records as rows, so that a process that is killed loses no money.

A thread of its own writes what changed, twenty times a second, and less often while the database does not
take it; at the start it brings back what an earlier life of the process left. The gateway starts and stops
it, and holds the lock on `DATA_DIR` meanwhile: rows of a process that still lives would be taken for those of
a dead one.
"""

import logging
import threading
from collections.abc import Iterable

import msgspec
from django.conf import settings
from django.db import connections, transaction

from billing.admission import OpenState, memory_store
from billing.admission.memory.mirroring import MirrorSource
from billing.admission.mirrored import MirrorBatch, MirroredRecord
from billing.metrics import MIRROR_FAILURES
from billing.models import OpenRecordRow

INTERVAL_S = 0.05
BATCH_MAX = 200
START_TIMEOUT_S = 60.0
_BACKOFF_MAX_S = 2.0
_COLUMNS = ("state", "epoch", "payload")

_logger = logging.getLogger(__name__)


class MirrorFailed(Exception):
    """The rows that an earlier life left could not be read; the text names the error's class."""


class _Payload(msgspec.Struct, frozen=True, array_like=True, gc=False):
    account_id: int
    open_nano: int
    record: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Payload)


def mirror_start() -> "Mirror | None":
    """The running mirror of this process's store, earlier records back in it; None where that is Redis.

    Blocks while it reads rows: not for the event loop. Errors: MirrorFailed.
    """
    if settings.REDIS_URL:
        return None
    mirror = Mirror(memory_store().mirror_source)
    mirror.start()
    return mirror


class Mirror:
    """`start` once, then `stop` once. A daemon thread: a database that hangs keeps no process alive."""

    def __init__(self, source: MirrorSource) -> None:
        self._source = source
        self._loaded = threading.Event()
        self._load_error: Exception | None = None
        self._stopping = threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="open-record-mirror", daemon=True)

    def start(self) -> None:
        """Returns once earlier records are back. Blocks: not for the event loop.

        Errors: MirrorFailed; then the thread ends, as soon as the database lets it.
        """
        self._thread.start()
        if not self._loaded.wait(START_TIMEOUT_S):
            self._stopping.set()
            raise MirrorFailed("timeout")
        if self._load_error is not None:
            raise MirrorFailed(type(self._load_error).__name__) from self._load_error

    def stop(self, timeout_s: float = 5.0) -> bool:
        """Write what has changed and end; whether the thread is gone. Blocks: not for the event loop."""
        self._stopping.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            if self._load():
                while not self._stopping.wait(self._patience_s()):
                    self._write_all()
                self._write_all()
        finally:
            connections.close_all()

    def _load(self) -> bool:
        """Whether earlier records are back in the store, and changes are to be written from now on."""
        try:
            earlier = list(_records(OpenRecordRow.objects.iterator()))
        except Exception as error:  # noqa: BLE001  whatever it is, `start` raises it where it is handled
            self._load_error = error
            return False
        else:
            if self._stopping.is_set():  # nobody waits for them any more
                return False
            self._source.begin(earlier)
            if earlier:
                _logger.warning("%d open records of an earlier life are back", len(earlier))
            return True
        finally:
            self._loaded.set()

    def _patience_s(self) -> float:
        """Until the next turn: longer after each failure in a row."""
        return min(INTERVAL_S * 2.0 ** min(self._failures, 10), _BACKOFF_MAX_S)

    def _write_all(self) -> None:
        """What has changed, batch by batch, up to the first that fails."""
        while batch := self._source.take(BATCH_MAX):
            try:
                _write(batch)
            except Exception as error:  # noqa: BLE001  a thread that died of a surprise would lose money at a kill
                self._source.put_back(batch)
                self._note_failure(error)
                return
            self._source.confirm(batch)
            self._note_success()

    def _note_failure(self, error: Exception) -> None:
        MIRROR_FAILURES.inc()
        self._failures += 1
        if self._failures == 1:
            _logger.error("open records are not mirrored (%s); tried again", type(error).__name__)
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()

    def _note_success(self) -> None:
        if self._failures:
            _logger.warning("open records are mirrored again after %d failures", self._failures)
            self._failures = 0


def _write(batch: MirrorBatch) -> None:
    """All of it or nothing."""
    with transaction.atomic():
        OpenRecordRow.objects.bulk_create(
            [_row(record) for record in batch.upserts],
            update_conflicts=True,
            unique_fields=["request_id"],
            update_fields=_COLUMNS,
        )
        OpenRecordRow.objects.filter(request_id__in=batch.deletes).delete()


def _row(record: MirroredRecord) -> OpenRecordRow:
    return OpenRecordRow(
        request_id=record.request_id,
        state=OpenState.SETTLED if record.is_settled else OpenState.RUNNING,
        epoch=record.epoch,
        payload=_encoder.encode(_Payload(record.account_id, record.open_nano, record.payload)),
    )


def mirrored_record(row: OpenRecordRow) -> MirroredRecord | None:
    """What a row says; None: it cannot be read."""
    try:
        payload = _decoder.decode(bytes(row.payload))
    except msgspec.MsgspecError:
        return None
    return MirroredRecord(
        request_id=row.request_id,
        is_settled=row.state == OpenState.SETTLED,
        epoch=row.epoch,
        account_id=payload.account_id,
        open_nano=payload.open_nano,
        payload=payload.record,
    )


def _records(rows: Iterable[OpenRecordRow]) -> Iterable[MirroredRecord]:
    """A row that cannot be read is told and left where it is."""
    for row in rows:
        record = mirrored_record(row)
        if record is None:
            _logger.error("open record %s cannot be read; its row is kept", row.request_id)
        else:
            yield record
