"""Stream policies: create and change. Making one the default takes that from the other."""

from typing import TypedDict, Unpack

from channels_admin.models import StreamPolicy
from channels_admin.services.config_version import configuration_change, row_save


class StreamPolicyFields(TypedDict, total=False):
    """As the model's fields of the same names."""

    name: str
    is_default: bool
    stream_policy: str
    header_timeout_seconds: float
    first_event_timeout_seconds: float
    idle_timeout_seconds: float
    image_idle_timeout_seconds: float
    event_idle_timeout_seconds: float
    total_timeout_seconds: float
    early_commit_seconds: float | None
    preamble_hold_ms: int
    tool_call_guard: bool
    disconnect_policy: str


def stream_policy_create(**fields: Unpack[StreamPolicyFields]) -> StreamPolicy:
    """Raises ValidationError."""
    with configuration_change() as version:
        return _save(StreamPolicy(), fields, version)


def stream_policy_update(*, policy_id: int, **fields: Unpack[StreamPolicyFields]) -> StreamPolicy:
    """Raises ValidationError, StreamPolicy.DoesNotExist."""
    with configuration_change() as version:
        return _save(StreamPolicy.objects.get(pk=policy_id), fields, version)


def _save(policy: StreamPolicy, fields: StreamPolicyFields, version: int) -> StreamPolicy:
    if fields.get("is_default"):
        StreamPolicy.objects.filter(is_default=True).exclude(pk=policy.pk).update(
            is_default=False, version=version
        )
    row_save(policy, version, fields)
    return policy
