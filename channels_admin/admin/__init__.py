"""The console's pages of configuration, one noun a module. They save through the services, never delete."""

from channels_admin.admin.api_keys import ApiKeyAdmin
from channels_admin.admin.channels import ChannelAdmin
from channels_admin.admin.model_routes import ModelRouteAdmin
from channels_admin.admin.runtime_flags import RuntimeFlagAdmin
from channels_admin.admin.stream_policies import StreamPolicyAdmin
from channels_admin.admin.tenants import TenantAdmin
from channels_admin.admin.upstream_keys import UpstreamKeyAdmin

__all__ = [
    "ApiKeyAdmin",
    "ChannelAdmin",
    "ModelRouteAdmin",
    "RuntimeFlagAdmin",
    "StreamPolicyAdmin",
    "TenantAdmin",
    "UpstreamKeyAdmin",
]
