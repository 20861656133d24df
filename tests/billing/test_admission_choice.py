"""Settings choose the store; a process has one of each port."""

from billing.admission import SettledRecord, admission_port, open_records
from billing.admission.memory import MemoryStore
from billing.admission.memory.workers import MemoryOpenRecords
from billing.admission.redis import RedisAdmissionPort, RedisOpenRecords


async def test_without_redis_both_ports_lead_to_one_store(memory_settings):
    assert isinstance(admission_port(), MemoryStore)
    assert isinstance(open_records(), MemoryOpenRecords)
    await admission_port().settle([SettledRecord("a", b"payload")])
    assert open_records().claim(1) == [SettledRecord("a", b"payload")]
    assert admission_port() is admission_port()


def test_with_redis_each_port_is_made_once(redis_settings):
    assert isinstance(admission_port(), RedisAdmissionPort)
    assert isinstance(open_records(), RedisOpenRecords)
    assert admission_port() is admission_port()
    assert open_records() is open_records()
