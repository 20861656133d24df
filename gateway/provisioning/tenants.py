"""Tenants of a file, with their opening balances and API keys."""

import datetime
from collections.abc import Iterable

from billing.services.ledger import account_open
from channels_admin.crypto import api_key_digest
from channels_admin.models import ApiKey, Tenant
from channels_admin.services import (
    api_key_issue,
    api_key_update,
    tenant_create,
    tenant_set_status,
    tenant_update,
)
from channels_admin.statuses import AccessStatus
from gateway.provisioning.compare import change_text, change_texts, differing, field_texts
from gateway.provisioning.findings import Findings, NewApiKey, shown
from gateway.provisioning.schema import ApiKeyEntry, TenantEntry


def tenants_provision(entries: Iterable[tuple[str, TenantEntry]], findings: Findings) -> None:
    """entries: path in the file, entry."""
    for path, entry in entries:
        with findings.at(path):
            tenant = _tenant(entry, findings)
            for at, api_key in enumerate(entry.api_keys):
                key_path = f"{path}.api_keys[{at}]"
                with findings.at(key_path):
                    _api_key(key_path, tenant, api_key, findings)


def _tenant(entry: TenantEntry, findings: Findings) -> Tenant:
    what = f"tenant {entry.name}"
    wanted = entry.given(without=("status", "balance_usd", "api_keys"))
    row = Tenant.objects.filter(name=entry.name).first()
    if row is None:
        row = tenant_create(**wanted)  # type: ignore[arg-type]  # the schema's fields are the service's
        texts = [*field_texts(wanted), *_status(entry, row), *_opening(entry, row, findings)]
        findings.created(what, texts)
        return row
    changing = differing(row, wanted)
    texts = change_texts(row, changing)
    if changing:
        row = tenant_update(tenant_id=row.pk, **changing)  # type: ignore[arg-type]  # see above
    texts += [*_status(entry, row), *_opening(entry, row, findings)]
    findings.compared(what, texts)
    return row


def _status(entry: TenantEntry, row: Tenant) -> list[str]:
    if "status" not in entry.model_fields_set or row.status == entry.status.value:
        return []
    tenant_set_status(tenant_id=row.pk, status=entry.status)
    return [change_text("status", row.status, entry.status.value)]


def _opening(entry: TenantEntry, row: Tenant, findings: Findings) -> list[str]:
    """The opening balance is posted once; another amount later is a warning, not a payment."""
    if "balance_usd" not in entry.model_fields_set:
        return []
    opening = account_open(tenant=row, balance_usd=entry.balance_usd)
    if opening.warning:
        findings.warnings.append(opening.warning)
    return [f"opening balance {shown(entry.balance_usd)} USD"] if opening.posted else []


def _api_key(path: str, tenant: Tenant, entry: ApiKeyEntry, findings: Findings) -> None:
    plain = None if entry.key is None else entry.key.get_secret_value()
    rows = ApiKey.objects.filter(tenant=tenant, name=entry.name)
    row = rows.filter(status=AccessStatus.ACTIVE.value).first()
    if _is_refused(path, entry, plain, row, findings):
        return
    what = f"API key {entry.name} of tenant {tenant.name}"
    wanted = _wanted(entry)
    if row is not None:
        changing = differing(row, wanted)
        texts = change_texts(row, changing)
        if changing:
            api_key_update(api_key_id=row.pk, **changing)  # type: ignore[arg-type]  # see above
        findings.compared(what, texts)
    elif plain is None and rows.exists():
        # Making another one would undo what somebody has revoked.
        findings.warnings.append(f"{what} was closed and stays so: give a new one another name")
        findings.compared(what, [])
    else:
        row, made = api_key_issue(tenant_id=tenant.pk, plain=plain, **wanted)  # type: ignore[arg-type]  # see above
        findings.created(what, [f"key {row.prefix}…", *field_texts(wanted)])
        if plain is None:
            findings.new_api_keys.append(NewApiKey(tenant.name, entry.name, made))


def _wanted(entry: ApiKeyEntry) -> dict[str, object]:
    wanted = entry.given(without=("key",))
    if isinstance(expires := wanted.get("expires_at"), datetime.datetime):
        wanted["expires_at"] = expires.astimezone(datetime.UTC)
    return wanted


def _is_refused(
    path: str, entry: ApiKeyEntry, plain: str | None, row: ApiKey | None, findings: Findings
) -> bool:
    """A given key must be the row's own, or nobody's yet."""
    if plain is None:
        return False
    digest = api_key_digest(plain)
    if row is not None and row.digest != digest:
        reason = (
            f"API key {entry.name} exists and is another one ({row.prefix}…): "
            "close that first, or give this one another name"
        )
        findings.problem(f"{path}.key", reason)
        return True
    holder = ApiKey.objects.filter(digest=digest).select_related("tenant").first()
    if holder is None or holder == row:
        return False
    state = "was closed as" if holder.status == AccessStatus.CLOSED.value else "is already"
    findings.problem(f"{path}.key", f"this key {state} API key {holder.name} of tenant {holder.tenant.name}")
    return True
