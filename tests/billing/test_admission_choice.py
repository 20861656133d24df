"""Settings choose the store; a process has one of each port."""

from billing.admission import admission_port, open_records
from billing.admission.memory import MemoryStore
from billing.admission.redis import RedisAdmissionPort, RedisOpenRecords


def test_without_redis_one_object_serves_both_ports(memory_settings):
    assert isinstance(admission_port(), MemoryStore)
    assert admission_port() is open_records()
    assert admission_port() is admission_port()


def test_with_redis_each_port_is_made_once(redis_settings):
    assert isinstance(admission_port(), RedisAdmissionPort)
    assert isinstance(open_records(), RedisOpenRecords)
    assert admission_port() is admission_port()
    assert open_records() is open_records()
