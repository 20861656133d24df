"""What the database itself refuses, past every form and service."""

import pytest
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from channels_admin.models import (
    ApiKey,
    Channel,
    ConfigVersion,
    RuntimeFlag,
    StreamPolicy,
    Tenant,
    UpstreamKey,
)
from tests.factories.channels import a_channel, a_policy, a_tenant, an_api_key, an_upstream_key

pytestmark = pytest.mark.django_db

BAD_COLUMNS = [
    (Tenant, "status", "paused"),
    (Tenant, "name", ""),
    (Tenant, "group", ""),
    (ApiKey, "status", "disabled"),
    (ApiKey, "name", ""),
    (ApiKey, "digest", "ABCDEF"),
    (Channel, "name", ""),
    (Channel, "kind", ""),
    (Channel, "base_url", ""),
    (Channel, "status", "on"),
    (Channel, "key_mode", "best"),
    (Channel, "weight", 0),
    (Channel, "weight", 1_000_001),
    (Channel, "priority", 1_000_001),
    (Channel, "priority", -1_000_001),
    (Channel, "connect_timeout_seconds", 0),
    (Channel, "connect_timeout_seconds", 121),
    (Channel, "non_stream_timeout_seconds", -1),
    (UpstreamKey, "status", "dead"),
    (UpstreamKey, "sealed", ""),
    (UpstreamKey, "fingerprint", ""),
    (StreamPolicy, "name", ""),
    (StreamPolicy, "stream_policy", "sometimes"),
    (StreamPolicy, "disconnect_policy", "ignore"),
    (StreamPolicy, "preamble_hold_ms", 3001),
    (StreamPolicy, "preamble_hold_ms", -1),
    (StreamPolicy, "early_commit_seconds", -1),
    (StreamPolicy, "header_timeout_seconds", -0.5),
    (StreamPolicy, "first_event_timeout_seconds", 86_401),
    (StreamPolicy, "idle_timeout_seconds", 0),
    (StreamPolicy, "image_idle_timeout_seconds", 0),
    (StreamPolicy, "event_idle_timeout_seconds", -1),
    (StreamPolicy, "total_timeout_seconds", -1),
    (RuntimeFlag, "name", ""),
]


@pytest.fixture
def rows():
    an_api_key()
    a_channel()
    a_policy()


@pytest.mark.parametrize(("model", "column", "value"), BAD_COLUMNS)
def test_the_database_refuses_bad_values(rows, model, column, value):
    pk = model.objects.values_list("pk", flat=True).first()
    with pytest.raises(IntegrityError), transaction.atomic():
        model.objects.filter(pk=pk).update(**{column: value})


def test_preamble_hold_of_three_seconds_is_the_most():
    assert a_policy(preamble_hold_ms=3000).preamble_hold_ms == 3000


@pytest.mark.parametrize(
    "make_twice",
    [
        lambda: [Tenant.objects.create(name="same") for _ in range(2)],
        lambda: [StreamPolicy.objects.create(name="same") for _ in range(2)],
        lambda: [Channel.objects.create(name="same", base_url="https://a", models=["m"]) for _ in range(2)],
        lambda: [RuntimeFlag.objects.create(name="same") for _ in range(2)],
        lambda: [StreamPolicy.objects.create(name=name, is_default=True) for name in "ab"],
        lambda: ConfigVersion.objects.create(pk=2),
    ],
    ids=["tenant", "policy", "channel", "flag", "default policy", "second version row"],
)
def test_the_database_refuses_a_second_one(make_twice):
    with pytest.raises(IntegrityError), transaction.atomic():
        make_twice()


def test_the_same_upstream_key_is_once_a_channel_but_on_two_channels():
    first, second = a_channel(keys=0), a_channel(keys=0)
    key = an_upstream_key(first, "sk-one-credential-0001")
    twin = an_upstream_key(second, "sk-one-credential-0001")
    assert twin.fingerprint == key.fingerprint
    with pytest.raises(IntegrityError), transaction.atomic():
        UpstreamKey.objects.create(channel=first, sealed="x:y", fingerprint=key.fingerprint)


def test_digests_are_unique():
    api_key, _ = an_api_key()
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiKey.objects.create(tenant=a_tenant(), name="other", digest=api_key.digest)


def test_an_active_name_is_once_a_tenant_and_free_again_after_closing():
    api_key, _ = an_api_key(name="laptop")
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiKey.objects.create(tenant=api_key.tenant, name="laptop", digest="0" * 64)
    ApiKey.objects.filter(pk=api_key.pk).update(status="closed")
    ApiKey.objects.create(tenant=api_key.tenant, name="laptop", digest="0" * 64)


def test_named_rows_are_protected_from_deletion():
    api_key, _ = an_api_key()
    policy = a_policy()
    channel = a_channel(policy=policy)
    for row in (api_key.tenant, policy, channel):
        with pytest.raises(ProtectedError):
            row.delete()
