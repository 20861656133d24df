"""Who owns an API key, and which keys and tenants changed since a version."""

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Q
from django.utils import timezone

from channels_admin.models import ApiKey, Tenant
from channels_admin.selectors.ceilings import ceilings_of
from channels_admin.statuses import AccessStatus
from relay.core.types import Caller


class ApiKeyRefusal(StrEnum):
    """Why a key admits nobody."""

    UNKNOWN = "unknown"
    CLOSED = "closed"
    EXPIRED = "expired"
    TENANT_CLOSED = "tenant_closed"


@dataclass(frozen=True, slots=True)
class ApiKeyLookup:
    """Exactly one of the two is set. Both belong to the moment of the query: a cache re-checks expiry."""

    caller: Caller | None
    refusal: ApiKeyRefusal | None


@dataclass(frozen=True, slots=True)
class AccessChanges:
    """What a cache of callers must drop."""

    api_key_ids: frozenset[int]
    api_key_digests: frozenset[str]
    tenant_ids: frozenset[int]

    def __bool__(self) -> bool:
        return bool(self.api_key_digests or self.tenant_ids)


def caller_by_digest(digest: str) -> ApiKeyLookup:
    """digest: SHA-256 in hex. One query."""
    api_key = ApiKey.objects.select_related("tenant").filter(digest=digest).first()
    refusal = _refusal(api_key)
    if api_key is None or refusal is not None:
        return ApiKeyLookup(caller=None, refusal=refusal)
    return ApiKeyLookup(caller=_caller(api_key), refusal=None)


def revoked_api_keys(api_key_ids: Collection[int]) -> frozenset[int]:
    """Those of these keys that may ask no more: they or their tenants are closed. One query."""
    closed = Q(status=AccessStatus.CLOSED.value) | Q(tenant__status=AccessStatus.CLOSED.value)
    return frozenset(ApiKey.objects.filter(closed, pk__in=api_key_ids).values_list("pk", flat=True))


def changed_access(since: int) -> AccessChanges:
    """Keys and tenants that a version newer than `since` touched. Two queries."""
    keys = dict(ApiKey.objects.filter(version__gt=since).values_list("pk", "digest"))
    return AccessChanges(
        api_key_ids=frozenset(keys),
        api_key_digests=frozenset(keys.values()),
        tenant_ids=frozenset(Tenant.objects.filter(version__gt=since).values_list("pk", flat=True)),
    )


def _refusal(api_key: ApiKey | None) -> ApiKeyRefusal | None:
    if api_key is None:
        return ApiKeyRefusal.UNKNOWN
    if api_key.status != AccessStatus.ACTIVE:
        return ApiKeyRefusal.CLOSED
    if api_key.expires_at is not None and api_key.expires_at <= timezone.now():
        return ApiKeyRefusal.EXPIRED
    if api_key.tenant.status != AccessStatus.ACTIVE:
        return ApiKeyRefusal.TENANT_CLOSED
    return None


def _caller(api_key: ApiKey) -> Caller:
    return Caller(
        api_key_id=api_key.pk,
        tenant_id=api_key.tenant.pk,
        tenant_name=api_key.tenant.name,
        group=api_key.tenant.group,
        allowed_models=tuple(api_key.allowed_models),
        allowed_networks=tuple(ipaddress.ip_network(text) for text in api_key.allowed_networks),
        expires_at=api_key.expires_at,
        ceilings=ceilings_of(api_key),
        tenant_ceilings=ceilings_of(api_key.tenant),
    )
