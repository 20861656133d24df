"""API keys of tenants: issue, change, close. A closed key never comes back."""

import datetime
from typing import TypedDict, Unpack

from channels_admin.crypto import api_key_digest, api_key_prefix, generate_api_key
from channels_admin.models import ApiKey
from channels_admin.services.config_version import configuration_change, row_save
from channels_admin.statuses import AccessStatus


class ApiKeyFields(TypedDict, total=False):
    """allowed_models: names or patterns; allowed_networks: CIDR texts. Empty = all."""

    name: str
    expires_at: datetime.datetime | None
    allowed_models: list[str]
    allowed_networks: list[str]


def api_key_issue(*, tenant_id: int, **fields: Unpack[ApiKeyFields]) -> tuple[ApiKey, str]:
    """The row and the plain key, which exists nowhere else. Raises ValidationError."""
    plain = generate_api_key()
    with configuration_change() as version:
        api_key = ApiKey(tenant_id=tenant_id, digest=api_key_digest(plain), prefix=api_key_prefix(plain))
        row_save(api_key, version, fields)
        return api_key, plain


def api_key_update(*, api_key_id: int, **fields: Unpack[ApiKeyFields]) -> ApiKey:
    """Raises ValidationError, ApiKey.DoesNotExist."""
    with configuration_change() as version:
        api_key = ApiKey.objects.get(pk=api_key_id)
        row_save(api_key, version, fields)
        return api_key


def api_key_close(*, api_key_id: int) -> ApiKey:
    """Revokes for good: every process refuses the key within a second. Again: no change."""
    with configuration_change() as version:
        api_key = ApiKey.objects.get(pk=api_key_id)
        if api_key.status != AccessStatus.CLOSED:
            row_save(api_key, version, {"status": AccessStatus.CLOSED.value})
        return api_key
