"""What the staff roles may do with records and money. Everything not named is refused."""

from collections.abc import Mapping
from typing import Any

from django.db import connections

from channels_admin.roles import Role, role_permissions_sync

_RECORDS = frozenset({"view_relayrequest", "view_attempt", "view_usagerecord"})

ROLE_PERMISSIONS: Mapping[Role, frozenset[str]] = {
    Role.OPERATOR: _RECORDS | {"view_price", "view_deadoutcome", "change_deadoutcome"},
    Role.BILLING: _RECORDS
    | {"view_price", "add_price", "change_price", "view_account", "view_ledgerentry"}
    | {"view_deadoutcome", "change_deadoutcome"},
    Role.VIEWER: frozenset(),
}


def after_migrate(using: str, **_: Any) -> None:
    """Receiver of `post_migrate`. Not while migrating back to nothing: then the tables are gone."""
    if "billing_account" in connections[using].introspection.table_names():
        role_permissions_sync(app_label="billing", grants=ROLE_PERMISSIONS)
