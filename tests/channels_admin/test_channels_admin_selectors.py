"""Who owns an API key, and what a cache must drop."""

import datetime
from ipaddress import ip_network

import pytest
from django.utils import timezone

from channels_admin import services
from channels_admin.crypto import api_key_digest
from channels_admin.selectors import ApiKeyRefusal, caller_by_digest, changed_access, config_version
from channels_admin.statuses import AccessStatus
from relay.core.types import Caller
from tests.factories.channels import a_channel, a_tenant, an_api_key

pytestmark = pytest.mark.django_db


def test_an_active_key_gives_its_caller(django_assert_num_queries):
    tenant = a_tenant(name="acme", group="gold")
    until = timezone.now() + datetime.timedelta(hours=1)
    api_key, plain = an_api_key(
        tenant, allowed_models=["gpt-*"], allowed_networks=["10.0.0.0/8", "::1"], expires_at=until
    )
    with django_assert_num_queries(1):
        found = caller_by_digest(api_key_digest(plain))
    assert found.refusal is None
    assert found.caller == Caller(
        api_key_id=api_key.pk,
        tenant_id=tenant.pk,
        tenant_name="acme",
        group="gold",
        allowed_models=("gpt-*",),
        allowed_networks=(ip_network("10.0.0.0/8"), ip_network("::1/128")),
        expires_at=until,
    )


def test_each_refusal_has_its_reason():
    assert caller_by_digest(api_key_digest("sk-nobody")).refusal is ApiKeyRefusal.UNKNOWN
    closed, _ = an_api_key()
    services.api_key_close(api_key_id=closed.pk)
    assert caller_by_digest(closed.digest).refusal is ApiKeyRefusal.CLOSED
    expired, _ = an_api_key(expires_at=timezone.now() - datetime.timedelta(seconds=1))
    assert caller_by_digest(expired.digest).refusal is ApiKeyRefusal.EXPIRED
    orphan, _ = an_api_key()
    services.tenant_set_status(tenant_id=orphan.tenant_id, status=AccessStatus.CLOSED)
    assert caller_by_digest(orphan.digest).refusal is ApiKeyRefusal.TENANT_CLOSED
    for api_key in (closed, expired, orphan):
        assert caller_by_digest(api_key.digest).caller is None


def test_a_reopened_tenant_is_served_again():
    api_key, _ = an_api_key()
    for status in (AccessStatus.CLOSED, AccessStatus.ACTIVE):
        services.tenant_set_status(tenant_id=api_key.tenant_id, status=status)
    assert caller_by_digest(api_key.digest).caller is not None


def test_changed_access_names_exactly_what_changed():
    kept, _ = an_api_key()
    revoked, _ = an_api_key()
    regrouped = a_tenant()
    since = config_version()
    assert not changed_access(since)
    a_channel()
    assert not changed_access(since)
    services.api_key_close(api_key_id=revoked.pk)
    services.tenant_update(tenant_id=regrouped.pk, group="gold")
    changes = changed_access(since)
    assert changes.api_key_digests == {revoked.digest}
    assert changes.tenant_ids == {regrouped.pk}
    assert kept.digest not in changes.api_key_digests
