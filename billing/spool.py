"""Records that nothing outside this process holds when it ends: a file in DATA_DIR, read at the next start.

Written at shutdown only. Shape of a file: 4 bytes number of records; for each 4 bytes length, 4 bytes CRC-32
(all big endian) and MessagePack of (request id, payload, account id, amount in nano-dollars). Files of
earlier versions have the first two of these. Must not import: models.
"""

import logging
import os
import secrets
import struct
import zlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from billing.admission import SettledRecord

_BATCH = 200
_HEAD = struct.Struct(">II")
_logger = logging.getLogger(__name__)


class _Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    request_id: str
    payload: bytes
    account_id: int = 0
    amount_nano: int = 0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Entry)


def spool_write(directory: Path, records: Sequence[SettledRecord]) -> Path:
    """A new file, whole or not at all, for its owner only. Errors: OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / f"outcomes-{os.getpid()}-{secrets.token_hex(4)}.spool"
    draft = path.with_suffix(".draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(len(records).to_bytes(4, "big"))
        for record in records:
            body = _encoder.encode(_entry(record))
            file.write(_HEAD.pack(len(body), zlib.crc32(body)) + body)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    os.fsync(held := os.open(directory, os.O_RDONLY))  # or a power cut may forget the name
    os.close(held)
    return path


def spool_recover(directory: Path, write: Callable[[Sequence[SettledRecord]], Collection[str]]) -> None:
    """Record what earlier lives left; several processes may do so at once. Never raises.

    write: the ids of those that are recorded now. A file goes once all of it is recorded; if the database
    refuses it stays for the next start. A damaged one is kept as `.damaged`, its intact records recorded.
    """
    for path in sorted(directory.glob("outcomes-*.spool")):
        try:
            records, promised = _read(path.read_bytes())
            written: set[str] = set()
            for start in range(0, len(records), _BATCH):
                written.update(write(records[start : start + _BATCH]))
            if left := len({record.request_id for record in records} - written):
                _logger.error("%s: %d records could not be recorded; it is kept", path.name, left)
            elif len(records) != promised:
                path.replace(path.with_suffix(".damaged"))
                _logger.error("%s: %d of %d records recorded; damaged", path.name, len(records), promised)
            else:
                path.unlink(missing_ok=True)
                _logger.warning("%s: %d records of an earlier life recorded", path.name, len(records))
        except FileNotFoundError:
            continue  # another process was quicker
        except Exception as error:  # noqa: BLE001  whatever is wrong with one file, the process serves
            _logger.error("%s is kept for the next start: %s", path.name, type(error).__name__)  # noqa: TRY400  its text may quote values


def spool_holders(directory: Path, request_id: str) -> list[str]:
    """Names of the files, damaged ones too, that hold a record of this request.

    Those that cannot be read whole, and may hold it in the rest, are logged.
    """
    holders: list[str] = []
    damaged: list[str] = []
    for path in sorted(directory.glob("outcomes-*")):
        try:
            records, promised = _read(path.read_bytes())
        except FileNotFoundError:
            continue  # recorded meanwhile
        except (OSError, msgspec.MsgspecError):
            damaged.append(path.name)
            continue
        if any(record.request_id == request_id for record in records):
            holders.append(path.name)
        elif len(records) != promised:
            damaged.append(path.name)
    if damaged:
        _logger.error(
            "%d spool files cannot be read whole; what else they hold is not known: %s",
            len(damaged),
            ", ".join(damaged),
        )
    return holders


def _entry(record: SettledRecord) -> _Entry:
    return _Entry(record.request_id, record.payload, record.account_id, record.amount_nano)


def _read(data: bytes) -> tuple[list[SettledRecord], int]:
    """The intact records from the front, and how many there should be."""
    records: list[SettledRecord] = []
    promised, at = int.from_bytes(data[:4], "big"), 4
    while len(records) < promised and at + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + length]
        if not body or len(body) != length or zlib.crc32(body) != checksum:
            break
        entry = _decoder.decode(body)
        records.append(SettledRecord(entry.request_id, entry.payload, entry.account_id, entry.amount_nano))
        at += _HEAD.size + length
    return records, promised
