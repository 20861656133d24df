"""Reads of configuration, each a known number of queries."""

from channels_admin.selectors.api_keys import (
    AccessChanges,
    ApiKeyLookup,
    ApiKeyRefusal,
    caller_by_digest,
    changed_access,
)
from channels_admin.selectors.config_version import config_version

__all__ = [
    "AccessChanges",
    "ApiKeyLookup",
    "ApiKeyRefusal",
    "caller_by_digest",
    "changed_access",
    "config_version",
]
