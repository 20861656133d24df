"""Configuration rows for tests, made through the services as the console makes them."""

import itertools
from typing import Any

from django.contrib.auth.models import Group, User

from channels_admin.models import ApiKey, Channel, StreamPolicy, Tenant, UpstreamKey
from channels_admin.services import (
    api_key_issue,
    channel_create,
    stream_policy_create,
    tenant_create,
    upstream_key_add,
)

_numbers = itertools.count(1)


def a_tenant(**fields: Any) -> Tenant:
    return tenant_create(**{"name": f"tenant-{next(_numbers)}", **fields})


def an_api_key(tenant: Tenant | None = None, **fields: Any) -> tuple[ApiKey, str]:
    """The row and the plain key."""
    owner = tenant or a_tenant()
    return api_key_issue(tenant_id=owner.pk, **{"name": f"key-{next(_numbers)}", **fields})


def a_policy(**fields: Any) -> StreamPolicy:
    return stream_policy_create(**{"name": f"policy-{next(_numbers)}", **fields})


def a_channel(*, keys: int = 1, **fields: Any) -> Channel:
    """With so many upstream keys."""
    defaults = {
        "name": f"channel-{next(_numbers)}",
        "base_url": "https://upstream.example.com",
        "models": ["gpt-*"],
    }
    channel = channel_create(**{**defaults, **fields})
    for _ in range(keys):
        an_upstream_key(channel)
    return channel


def an_upstream_key(channel: Channel, plain: str | None = None) -> UpstreamKey:
    return upstream_key_add(channel_id=channel.pk, plain=plain or f"sk-upstream-secret-{next(_numbers):06}")


def a_staff_user(role: str | None) -> User:
    """role: a group's name, `superuser`, or None for staff without a group."""
    user = User(
        username=f"{role or 'staff'}-{next(_numbers)}", is_staff=True, is_superuser=role == "superuser"
    )
    user.set_unusable_password()
    user.save()
    if role and role != "superuser":
        user.groups.add(Group.objects.get(name=role))
    return user
