"""The staff roles: groups whose permissions are stated in code, made again after each migration.

Default deny: a group has, of an app, exactly what that app grants it. An app states its own share and
calls `role_permissions_sync` from its `post_migrate`, when its permissions exist. Nobody may delete.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum

from django.contrib.auth.models import Group, Permission


class Role(StrEnum):
    OPERATOR = "operator"
    """Runs channels, tenants and API keys."""
    BILLING = "billing"
    """Prices, accounts and reports."""
    VIEWER = "viewer"
    """Reports only."""


_MANAGED = ("tenant", "apikey", "channel", "upstreamkey", "streampolicy", "modelroute")

ROLE_PERMISSIONS: Mapping[Role, frozenset[str]] = {
    Role.OPERATOR: frozenset(f"{action}_{noun}" for noun in _MANAGED for action in ("view", "add", "change"))
    | {"view_runtimeflag", "change_runtimeflag"},
    # An account belongs to a tenant: billing staff must find it by name.
    Role.BILLING: frozenset({"view_tenant"}),
    Role.VIEWER: frozenset(),
}


def role_permissions_sync(*, app_label: str, grants: Mapping[Role, Collection[str]]) -> None:
    """Makes every group, and gives it of `app_label` exactly the permissions (codenames) of `grants`."""
    of_app = Permission.objects.filter(content_type__app_label=app_label)
    for role in Role:
        group, _created = Group.objects.get_or_create(name=role.value)
        group.permissions.remove(*of_app.exclude(codename__in=grants.get(role, ())))
        group.permissions.add(*of_app.filter(codename__in=grants.get(role, ())))
