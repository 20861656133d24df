"""API keys of tenants: issue, change, close. A closed key never comes back."""

import datetime
from typing import Unpack

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from channels_admin.crypto import api_key_digest, api_key_prefix, generate_api_key
from channels_admin.models import ApiKey
from channels_admin.services.config_version import configuration_change, row_save, row_switch
from channels_admin.services.limit_fields import LimitFields
from channels_admin.statuses import AccessStatus

KEY_MIN_LETTERS = 24
KEY_MAX_LETTERS = 256


class ApiKeyFields(LimitFields, total=False):
    """allowed_models: names or patterns; allowed_networks: CIDR texts. Empty = all."""

    name: str
    expires_at: datetime.datetime | None
    allowed_models: list[str]
    allowed_networks: list[str]


def api_key_issue(
    *, tenant_id: int, plain: str | None = None, **fields: Unpack[ApiKeyFields]
) -> tuple[ApiKey, str]:
    """The row and the plain key, which exists nowhere else. Raises ValidationError.

    plain: a key that its owner has already, from another gateway, say; else one is made.
    """
    if plain is None:
        plain = generate_api_key()
    api_key_check(plain)
    with configuration_change() as version:
        api_key = ApiKey(tenant_id=tenant_id, digest=api_key_digest(plain), prefix=api_key_prefix(plain))
        row_save(api_key, version, fields)
        return api_key, plain


def api_key_check(plain: str) -> None:
    """Raises ValidationError, which never repeats the key."""
    is_text = plain.isascii() and plain.isprintable() and not any(letter.isspace() for letter in plain)
    if not is_text or not KEY_MIN_LETTERS <= len(plain) <= KEY_MAX_LETTERS:
        # Digests are not stretched: a short key could be guessed from one.
        raise ValidationError(
            _("An API key is printable ASCII without spaces, %(least)d to %(most)d letters."),
            code="invalid",
            params={"least": KEY_MIN_LETTERS, "most": KEY_MAX_LETTERS},
        )


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
            row_switch(api_key, version, {"status": AccessStatus.CLOSED.value})
        return api_key
