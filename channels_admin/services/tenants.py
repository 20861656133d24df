"""Tenants: create, change, close."""

from typing import Unpack

from channels_admin.models import Tenant
from channels_admin.services.config_version import configuration_change, row_save, row_switch
from channels_admin.services.limit_fields import LimitFields
from channels_admin.statuses import AccessStatus


class TenantFields(LimitFields, total=False):
    name: str
    group: str


def tenant_create(**fields: Unpack[TenantFields]) -> Tenant:
    """Raises ValidationError."""
    with configuration_change() as version:
        tenant = Tenant()
        row_save(tenant, version, fields)
        return tenant


def tenant_update(*, tenant_id: int, **fields: Unpack[TenantFields]) -> Tenant:
    """Raises ValidationError, Tenant.DoesNotExist."""
    with configuration_change() as version:
        tenant = Tenant.objects.get(pk=tenant_id)
        row_save(tenant, version, fields)
        return tenant


def tenant_set_status(*, tenant_id: int, status: AccessStatus) -> Tenant:
    """Closing refuses every API key of the tenant; opening again revives those that are not closed."""
    with configuration_change() as version:
        tenant = Tenant.objects.get(pk=tenant_id)
        row_switch(tenant, version, {"status": status.value})
        return tenant
