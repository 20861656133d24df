"""Commit order is version order: who takes the version holds the others up until the commit."""

import threading

import pytest
from django.db import connection, transaction

from channels_admin.models import Tenant
from channels_admin.selectors import config_version
from channels_admin.services import config_version_bump, tenant_create

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_second_change_waits_for_the_first_to_commit():
    first_has_version, may_commit, second_done = (threading.Event() for _ in range(3))
    seen = {}

    def first():
        with transaction.atomic():
            seen["first"] = config_version_bump()
            first_has_version.set()
            may_commit.wait(10)
        connection.close()

    def second():
        seen["second"] = tenant_create(name="second").version
        second_done.set()
        connection.close()

    before = config_version()
    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert first_has_version.wait(10)
    threads[1].start()
    assert not second_done.wait(0.3)
    assert config_version() == before
    assert not Tenant.objects.exists()
    may_commit.set()
    for thread in threads:
        thread.join(30)
    assert seen == {"first": before + 1, "second": before + 2}
    assert config_version() == before + 2


def test_many_writers_at_once_lose_no_version():
    before = config_version()
    versions = []

    def write(writer):
        versions.extend(tenant_create(name=f"tenant {writer} {number}").version for number in range(5))
        connection.close()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(versions) == list(range(before + 1, before + 21))
    assert config_version() == before + 20
