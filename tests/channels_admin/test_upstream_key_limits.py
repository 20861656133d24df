"""An upstream key's ceilings: set in the console, in the snapshot, and never beside its secret."""

import pytest
from django.core.exceptions import ValidationError
from django.urls import reverse

from channels_admin.models import UpstreamKey
from channels_admin.services import upstream_key_update
from channels_admin.snapshots import load_section
from relay.core.types import Ceilings
from tests.factories.channels import a_channel, a_staff_user

pytestmark = pytest.mark.django_db


def test_the_console_sets_them_and_the_next_snapshot_has_them(client):
    key = a_channel().upstream_keys.get()
    before = load_section(None)
    client.force_login(a_staff_user("operator"))
    url = reverse("admin:channels_admin_upstreamkey_change", args=(key.pk,))
    answer = client.post(url, {"max_concurrent_requests": 3, "max_concurrent_streams": 2})
    assert answer.status_code == 302
    [channel] = load_section(before).channels.values()
    assert channel.keys[0].ceilings == Ceilings(requests=3, streams=2)
    assert UpstreamKey.objects.get().sealed == key.sealed


def test_a_viewer_may_not(client):
    key = a_channel().upstream_keys.get()
    client.force_login(a_staff_user("viewer"))
    url = reverse("admin:channels_admin_upstreamkey_change", args=(key.pk,))
    assert client.post(url, {"max_concurrent_requests": 3}).status_code == 403
    assert UpstreamKey.objects.get().max_concurrent_requests == 0


def test_less_than_none_is_refused():
    key = a_channel().upstream_keys.get()
    with pytest.raises(ValidationError):
        upstream_key_update(upstream_key_id=key.pk, max_concurrent_requests=-1)
