"""Every change of configuration. Keyword-only, one transaction each, which takes the version first."""

from channels_admin.services.api_keys import api_key_close, api_key_issue, api_key_update
from channels_admin.services.channels import channel_create, channel_set_status, channel_update
from channels_admin.services.config_version import config_version_bump, configuration_change
from channels_admin.services.model_routes import model_route_close, model_route_set, model_route_update
from channels_admin.services.runtime_flags import (
    image_failover_clear,
    image_failover_set,
    runtime_flag_clear,
    runtime_flag_set,
    runtime_flags_set,
)
from channels_admin.services.stream_policies import stream_policy_create, stream_policy_update
from channels_admin.services.tenants import tenant_create, tenant_set_status, tenant_update
from channels_admin.services.upstream_keys import (
    upstream_key_add,
    upstream_key_set_status,
    upstream_key_update,
    upstream_keys_add,
    upstream_keys_reseal,
)

__all__ = [
    "api_key_close",
    "api_key_issue",
    "api_key_update",
    "channel_create",
    "channel_set_status",
    "channel_update",
    "config_version_bump",
    "configuration_change",
    "image_failover_clear",
    "image_failover_set",
    "model_route_close",
    "model_route_set",
    "model_route_update",
    "runtime_flag_clear",
    "runtime_flag_set",
    "runtime_flags_set",
    "stream_policy_create",
    "stream_policy_update",
    "tenant_create",
    "tenant_set_status",
    "tenant_update",
    "upstream_key_add",
    "upstream_key_set_status",
    "upstream_key_update",
    "upstream_keys_add",
    "upstream_keys_reseal",
]
