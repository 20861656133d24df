"""Channels: create, change, switch on and off."""

from typing import Unpack

from django.conf import settings
from django.utils import timezone

from channels_admin.health import Route, RouteKind
from channels_admin.models import Channel, StreamPolicy
from channels_admin.services.config_version import configuration_change, row_save, row_switch
from channels_admin.services.limit_fields import ConcurrencyFields
from channels_admin.services.route_health import route_forget_failures
from channels_admin.statuses import RouteStatus
from relay.core.url_guard import UnsafeUrl, check_base_url


class ChannelFields(ConcurrencyFields, total=False):
    """As the model's fields of the same names."""

    name: str
    kind: str
    base_url: str
    proxy_url: str
    models: list[str]
    model_mapping: dict[str, str]
    priority: int
    weight: int
    groups: list[str]
    tags: list[str]
    policy: StreamPolicy | None
    key_mode: str
    connect_timeout_seconds: float
    non_stream_timeout_seconds: float
    request_stream_usage: bool
    charge_input_on_leave: bool
    header_overrides: dict[str, str]
    parameter_overrides: dict[str, object]


def channel_create(*, status: RouteStatus = RouteStatus.ENABLED, **fields: Unpack[ChannelFields]) -> Channel:
    """Raises ValidationError."""
    with configuration_change() as version:
        channel = Channel(status=status.value)
        row_save(channel, version, _normalised(fields))
        return channel


def channel_update(*, channel_id: int, **fields: Unpack[ChannelFields]) -> Channel:
    """Raises ValidationError, Channel.DoesNotExist."""
    with configuration_change() as version:
        channel = Channel.objects.get(pk=channel_id)
        row_save(channel, version, _normalised(fields))
        return channel


def channel_set_status(*, channel_id: int, status: RouteStatus, reason: str = "") -> Channel:
    """reason: a few words for the console, at most 200 letters; never an upstream's text."""
    with configuration_change() as version:
        channel = Channel.objects.get(pk=channel_id)
        row_switch(
            channel,
            version,
            {"status": status.value, "status_reason": reason, "status_changed_at": timezone.now()},
        )
        if status is RouteStatus.ENABLED:
            route_forget_failures(Route(RouteKind.CHANNEL, channel.pk))
        return channel


def _normalised(fields: ChannelFields) -> ChannelFields:
    """`base_url` as the relay wants it; a bad one is left for the field's validator to tell."""
    if "base_url" not in fields:
        return fields
    try:
        base_url = check_base_url(fields["base_url"], settings.UPSTREAM_ALLOWED_PRIVATE_NETS)
    except UnsafeUrl:
        return fields
    return {**fields, "base_url": base_url}
