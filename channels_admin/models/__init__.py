"""Configured rows, one noun a file. Nothing configured is ever deleted: it is closed, or cleared."""

from channels_admin.models.api_keys import ApiKey
from channels_admin.models.channels import Channel
from channels_admin.models.config_version import ConfigVersion
from channels_admin.models.model_routes import ModelRoute
from channels_admin.models.runtime_flags import RuntimeFlag
from channels_admin.models.stream_policies import StreamPolicy
from channels_admin.models.tenants import Tenant
from channels_admin.models.upstream_keys import UpstreamKey

__all__ = [
    "ApiKey",
    "Channel",
    "ConfigVersion",
    "ModelRoute",
    "RuntimeFlag",
    "StreamPolicy",
    "Tenant",
    "UpstreamKey",
]
