"""The spool: what could not be recorded when a process ended is recorded when the next one starts."""

import struct
import zlib

import msgspec
import pytest
from django.db import OperationalError

from billing.admission import SettledRecord
from billing.spool import spool_recover, spool_write

RECORDS = [
    SettledRecord(f"id-{number}", bytes([number, 0, 255]) * 9, account_id=number, amount_nano=number + 1)
    for number in range(5)
]


class Ledger:
    """Stands for the rows. refused: ids that are not taken; error: what the database says."""

    def __init__(self, refused=frozenset(), error=None):
        self.seen = []
        self.refused = refused
        self.error = error

    def __call__(self, records):
        if self.error:
            raise self.error
        self.seen.extend(records)
        return {record.request_id for record in records} - self.refused


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_records_come_back_whole_and_the_file_goes(tmp_path, caplog):
    spool_write(tmp_path, RECORDS)
    ledger = Ledger()
    spool_recover(tmp_path, ledger)
    assert ledger.seen == RECORDS
    assert names(tmp_path) == []
    assert "5 records" in caplog.text


def test_the_file_is_for_its_owner_only_and_no_draft_is_left(tmp_path):
    path = spool_write(tmp_path / "new", RECORDS)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert names(path.parent) == [path.name]


def test_two_processes_never_write_one_file(tmp_path):
    assert spool_write(tmp_path, RECORDS[:1]) != spool_write(tmp_path, RECORDS[1:])
    ledger = Ledger()
    spool_recover(tmp_path, ledger)
    assert sorted(record.request_id for record in ledger.seen) == [f"id-{number}" for number in range(5)]


def test_many_records_go_in_batches(tmp_path):
    spool_write(tmp_path, [SettledRecord(str(number), b"") for number in range(450)])
    sizes = []
    spool_recover(tmp_path, lambda records: sizes.append(len(records)) or {one.request_id for one in records})
    assert sizes == [200, 200, 50]


@pytest.mark.parametrize("cut", range(1, 180, 7))
def test_of_a_truncated_file_the_intact_records_are_recorded_and_the_rest_is_told(tmp_path, caplog, cut):
    path = spool_write(tmp_path, RECORDS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    ledger = Ledger()
    spool_recover(tmp_path, ledger)
    intact = (len(whole) - 4 - cut) // ((len(whole) - 4) // len(RECORDS))
    assert ledger.seen == RECORDS[:intact]
    assert f"{intact} of 5 records recorded" in caplog.text
    assert names(tmp_path) == [path.with_suffix(".damaged").name]
    assert path.with_suffix(".damaged").read_bytes() == whole[:-cut]


@pytest.mark.parametrize("filler", [b"\0", b"\xff"], ids=["zeros", "ones"])
def test_a_damaged_end_is_not_taken_for_a_record(tmp_path, caplog, filler):
    path = spool_write(tmp_path, RECORDS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-50] + filler * 50)
    ledger = Ledger()
    spool_recover(tmp_path, ledger)
    assert ledger.seen == RECORDS[:3]
    assert "3 of 5" in caplog.text


def test_a_flipped_bit_ends_the_reading(tmp_path):
    path = spool_write(tmp_path, RECORDS)
    data = bytearray(path.read_bytes())
    data[4 + (len(data) - 4) * 2 // 5 + 20] ^= 1
    path.write_bytes(data)
    ledger = Ledger()
    spool_recover(tmp_path, ledger)
    assert ledger.seen == RECORDS[:2]


@pytest.mark.parametrize(
    "ledger",
    [
        Ledger(error=OperationalError("hunter2")),
        Ledger(refused={"id-3"}),
        Ledger(error=ValueError("hunter2")),
    ],
    ids=["database away", "one refused", "surprise"],
)
def test_what_is_not_recorded_is_kept_for_the_next_start(tmp_path, caplog, ledger):
    path = spool_write(tmp_path, RECORDS)
    spool_recover(tmp_path, ledger)
    assert "kept" in caplog.text
    assert "hunter2" not in caplog.text
    later = Ledger()
    spool_recover(tmp_path, later)
    assert later.seen == RECORDS
    assert not path.exists()


def test_one_bad_file_does_not_stop_the_others(tmp_path):
    (tmp_path / "outcomes-0.spool").mkdir()
    spool_write(tmp_path, RECORDS)
    ledger = Ledger()
    spool_recover(tmp_path, ledger)
    assert ledger.seen == RECORDS


def test_no_directory_no_spool(tmp_path):
    spool_recover(tmp_path / "none", Ledger())


def test_a_file_of_the_version_before_accounts_is_read(tmp_path):
    body = msgspec.msgpack.encode(("old", b"payload"))
    head = struct.pack(">III", 1, len(body), zlib.crc32(body))
    (tmp_path / "outcomes-1.spool").write_bytes(head + body)
    ledger = Ledger()
    spool_recover(tmp_path, ledger)
    assert ledger.seen == [SettledRecord("old", b"payload")]
    assert names(tmp_path) == []
