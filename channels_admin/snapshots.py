"""Rows → frozen values of `relay.core.types`, at one version. Asked by each process's poller.

Nothing changed costs one query and gives the same object back. Otherwise only rows with a newer version
are read, and everything else is the previous section's own object: secrets stay unsealed, and an index
need not be built for what stayed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Prefetch, Q

from channels_admin import models
from channels_admin.crypto import SealedSecret
from channels_admin.flags import flag_values, relay_flags
from channels_admin.selectors.api_keys import AccessChanges, changed_access
from channels_admin.selectors.ceilings import ceilings_of
from channels_admin.selectors.config_version import config_version
from channels_admin.statuses import RouteStatus
from relay.core.routes import RouteIndex
from relay.core.selection import ChannelIndex
from relay.core.types import (
    Channel,
    DisconnectPolicy,
    KeyMode,
    ModelRoute,
    RelayFlags,
    StreamMode,
    StreamPolicy,
    UpstreamKey,
)

__all__ = ["AccessChanges", "ChannelSection", "changed_access", "load_channel", "load_section"]

_TORN_READS_ALLOWED = 3


@dataclass(frozen=True, slots=True)
class ChannelSection:
    """One immutable state of the configuration that this app owns.

    channels: by id, only enabled ones that have an enabled key. listed: by id, every channel that is not
    closed; those that are out have no keys here. auto_disabled_keys: ids of keys that are out by themselves
    or with their channel, and not by hand. index: over `listed`. flag_values: name → effective
    value, every known flag. policies: by id. default_policy: of channels that name none.
    model_routes: by id, those that are not closed. routes: over `model_routes`.
    """

    version: int
    index: ChannelIndex
    channels: Mapping[int, Channel]
    listed: Mapping[int, Channel]
    auto_disabled_keys: frozenset[int]
    flags: RelayFlags
    flag_values: Mapping[str, object]
    default_policy: StreamPolicy
    policies: Mapping[int, StreamPolicy]
    model_routes: Mapping[int, ModelRoute]
    routes: RouteIndex


def load_section(previous: ChannelSection | None) -> ChannelSection:
    """The section at the committed version; `previous` itself if that is still it.

    Raises FlagError when the environment holds a bad flag value.
    """
    version = config_version()
    if previous is not None and previous.version == version:
        return previous
    if previous is not None and previous.version > version:
        previous = None  # an older database was put in place: nothing known is worth keeping
    section = _load(previous, version)
    for _attempt in range(_TORN_READS_ALLOWED):
        after = config_version()
        if after == section.version:
            break
        # A change was committed between two of our queries: half of it may be in. Its rows are newer than
        # the section's version, so if this goes on and on, the next poll puts the rest right.
        section = _load(previous, after)
    return section


def load_channel(name: str, *, key_id: int | None = None) -> Channel | None:
    """One channel whatever its status, for a probe; None if there is none of this name.

    Its enabled keys, or where none is enabled those that are not closed. key_id: this key alone.
    """
    row = models.Channel.objects.select_related("policy").filter(name=name).first()
    if row is None:
        return None
    known = list(row.upstream_keys.exclude(status=RouteStatus.CLOSED.value).order_by("pk"))
    enabled = [key for key in known if key.status == RouteStatus.ENABLED.value]
    if key_id is not None:
        enabled = known = [key for key in known if key.pk == key_id]
    policy = row.policy or models.StreamPolicy.objects.filter(is_default=True).first()
    keys = tuple(_key(key) for key in enabled or known)
    return _channel(row, keys, StreamPolicy() if policy is None else _policy(policy))


def _load(previous: ChannelSection | None, version: int) -> ChannelSection:
    since = previous.version if previous else -1
    policies, default_policy = _policies(previous, since)
    listed = _listed(previous, since, policies, default_policy)
    flags, values = _flags(previous, since)
    model_routes = _model_routes(previous, since, policies)
    if previous is None or listed is not previous.listed:
        index = ChannelIndex(listed.values())
        channels: Mapping[int, Channel] = {pk: c for pk, c in listed.items() if c.keys}
        auto_disabled = _auto_disabled_keys()
    else:
        index, channels = previous.index, previous.channels
        auto_disabled = previous.auto_disabled_keys
    return ChannelSection(
        version=version,
        index=index,
        channels=channels,
        listed=listed,
        auto_disabled_keys=auto_disabled,
        flags=flags,
        flag_values=values,
        default_policy=default_policy,
        policies=policies,
        model_routes=model_routes,
        routes=RouteIndex(model_routes.values())
        if previous is None or model_routes is not previous.model_routes
        else previous.routes,
    )


def _auto_disabled_keys() -> frozenset[int]:
    out = RouteStatus.AUTO_DISABLED.value
    not_by_hand = (RouteStatus.ENABLED.value, out)
    keys = models.UpstreamKey.objects.filter(status__in=not_by_hand, channel__status__in=not_by_hand)
    return frozenset(keys.filter(Q(status=out) | Q(channel__status=out)).values_list("pk", flat=True))


def _model_routes(
    previous: ChannelSection | None, since: int, policies: Mapping[int, StreamPolicy]
) -> Mapping[int, ModelRoute]:
    rows = list(models.ModelRoute.objects.filter(Q(version__gt=since) | Q(policy__version__gt=since)))
    if previous is not None and not rows:
        return previous.model_routes
    routes = dict(previous.model_routes) if previous else {}
    for row in rows:
        routes.pop(row.pk, None)
        if not row.is_closed:
            routes[row.pk] = _model_route(row, policies)
    return routes


def _flags(previous: ChannelSection | None, since: int) -> tuple[RelayFlags, Mapping[str, object]]:
    rows = models.RuntimeFlag.objects
    if previous is not None and not rows.filter(version__gt=since).exists():
        return previous.flags, previous.flag_values
    values = flag_values(dict(rows.values_list("name", "value")))
    return relay_flags(values), values


def _policies(previous: ChannelSection | None, since: int) -> tuple[Mapping[int, StreamPolicy], StreamPolicy]:
    rows = list(models.StreamPolicy.objects.filter(version__gt=since))
    if previous is not None and not rows:
        return previous.policies, previous.default_policy
    kept = previous.policies if previous else {}
    policies = {**kept, **{row.pk: _policy(row) for row in rows}}
    default_id = models.StreamPolicy.objects.filter(is_default=True).values_list("pk", flat=True).first()
    return policies, policies.get(default_id, StreamPolicy()) if default_id else StreamPolicy()


def _listed(
    previous: ChannelSection | None,
    since: int,
    policies: Mapping[int, StreamPolicy],
    default_policy: StreamPolicy,
) -> Mapping[int, Channel]:
    changed = Q(version__gt=since) | Q(upstream_keys__version__gt=since) | Q(policy__version__gt=since)
    if previous is not None and default_policy != previous.default_policy:
        changed |= Q(policy__isnull=True)
    # Ids first: joined with the keys, a channel would come once for each of them.
    ids = set(models.Channel.objects.filter(changed).values_list("pk", flat=True))
    if previous is not None and not ids:
        return previous.listed
    kept = previous.listed if previous else {}
    channels = {pk: channel for pk, channel in kept.items() if pk not in ids}
    for row in _open_rows(ids):
        is_out = row.status != RouteStatus.ENABLED.value
        keys = () if is_out else _keys(row.upstream_keys.all(), kept.get(row.pk), since)
        policy = policies.get(row.policy_id, default_policy) if row.policy_id else default_policy
        channels[row.pk] = _channel(row, keys, policy)
    return dict(sorted(channels.items()))


def _open_rows(ids: Iterable[int]) -> Iterable[models.Channel]:
    keys = models.UpstreamKey.objects.filter(status=RouteStatus.ENABLED.value).order_by("pk")
    channels = models.Channel.objects.filter(pk__in=ids).exclude(status=RouteStatus.CLOSED.value)
    return channels.prefetch_related(Prefetch("upstream_keys", queryset=keys))


def _keys(rows: Iterable[models.UpstreamKey], known: Channel | None, since: int) -> tuple[UpstreamKey, ...]:
    unchanged = {key.id: key for key in known.keys} if known else {}
    return tuple(
        unchanged[row.pk] if row.version <= since and row.pk in unchanged else _key(row) for row in rows
    )


def _key(row: models.UpstreamKey) -> UpstreamKey:
    return UpstreamKey(id=row.pk, label=row.label, secret=SealedSecret(row.sealed), ceilings=ceilings_of(row))


def _policy(row: models.StreamPolicy) -> StreamPolicy:
    return StreamPolicy(
        name=row.name,
        stream_policy=StreamMode(row.stream_policy),
        header_timeout_s=row.header_timeout_seconds,
        first_event_timeout_s=row.first_event_timeout_seconds,
        idle_timeout_s=row.idle_timeout_seconds,
        image_idle_timeout_s=row.image_idle_timeout_seconds,
        event_idle_timeout_s=row.event_idle_timeout_seconds,
        total_timeout_s=row.total_timeout_seconds,
        early_commit_s=row.early_commit_seconds,
        preamble_hold_s=row.preamble_hold_ms / 1000,
        tool_call_guard=row.tool_call_guard,
        disconnect_policy=DisconnectPolicy(row.disconnect_policy),
    )


def _channel(row: models.Channel, keys: tuple[UpstreamKey, ...], policy: StreamPolicy) -> Channel:
    return Channel(
        id=row.pk,
        name=row.name,
        kind=row.kind,
        base_url=row.base_url,
        models=tuple(row.models),
        keys=keys,
        model_mapping=row.model_mapping,
        priority=row.priority,
        weight=row.weight,
        groups=frozenset(row.groups),
        key_mode=KeyMode(row.key_mode),
        policy=policy,
        connect_timeout_s=row.connect_timeout_seconds,
        non_stream_timeout_s=row.non_stream_timeout_seconds,
        request_stream_usage=row.request_stream_usage,
        header_overrides=row.header_overrides,
        parameter_overrides=row.parameter_overrides,
        proxy_url=row.proxy_url,
        charge_input_on_leave=row.charge_input_on_leave,
        ceilings=ceilings_of(row),
    )


def _model_route(row: models.ModelRoute, policies: Mapping[int, StreamPolicy]) -> ModelRoute:
    return ModelRoute(
        id=row.pk,
        model=row.model,
        group=row.group,
        is_artefact=row.is_artefact,
        hedge_after_s=row.hedge_after_ms / 1000,
        degrade_to_non_stream=row.degrade_to_non_stream,
        fallback_models=tuple(row.fallback_models),
        policy=policies.get(row.policy_id) if row.policy_id else None,
    )
