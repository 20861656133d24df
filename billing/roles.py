"""What the staff roles may do with records and money. Everything not named is refused."""

from collections.abc import Mapping
from typing import Any

from django.db import connections

from channels_admin.roles import Role, role_permissions_sync

_REPORTS = frozenset({"view_usage_reports"})
_RECORDS = _REPORTS | frozenset({"view_relayrequest", "view_attempt", "view_usagerecord"})
_PRICES = ("price", "costprice", "groupmultiplier")
_VIEW_PRICES = frozenset(f"view_{noun}" for noun in _PRICES)
_SET_PRICES = frozenset(f"{action}_{noun}" for noun in _PRICES for action in ("add", "change"))

ROLE_PERMISSIONS: Mapping[Role, frozenset[str]] = {
    Role.OPERATOR: _RECORDS | _VIEW_PRICES | {"view_deadoutcome", "change_deadoutcome"},
    Role.BILLING: _RECORDS
    | _VIEW_PRICES
    | _SET_PRICES
    | {"view_account", "view_ledgerentry", "view_ledgerdrift"}
    | {"top_up_account", "correct_account", "refund_request"}
    | {"view_deadoutcome", "change_deadoutcome"},
    Role.VIEWER: _REPORTS,
}


def after_migrate(using: str, **_: Any) -> None:
    """Receiver of `post_migrate`. Not while migrating back to nothing: then the tables are gone."""
    if "billing_account" in connections[using].introspection.table_names():
        role_permissions_sync(app_label="billing", grants=ROLE_PERMISSIONS)
