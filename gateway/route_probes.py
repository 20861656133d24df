"""Timed probes: channels and upstream keys that went out by themselves come back when an attempt succeeds.

A probe asks a real question through the real runtime; it passes when the answer passes the commit point. The
first is due `FIRST_S` after the route went out, each failed one makes the next wait twice as long.
"""

import asyncio
import datetime
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.conf import settings
from django.utils import timezone

from billing.selectors.attempts import model_last_answered
from channels_admin.health import HealthUnavailable, Route, RouteKind, health_store
from channels_admin.models import Channel as ChannelRow
from channels_admin.models import UpstreamKey as UpstreamKeyRow
from channels_admin.services.route_health import route_recover
from channels_admin.snapshots import load_channel
from channels_admin.statuses import RouteStatus
from gateway.probe import Question, probe
from relay.core.types import Channel

FIRST_S = 30.0
LONGEST_S = 1_800.0
PATIENCE_S = 8.0
TOTAL_S = 20.0
"""Of one run; what is not asked by then is due in the next."""
PROBES_A_RUN = 20
_PROMPT = "Say ok."

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Due:
    """channel: with the keys to ask with, the first of which is taken."""

    route: Route
    name: str
    channel: Channel
    model: str


def probe_due_routes() -> int:
    """How many routes came back. Health that cannot be read is no reason to fail: the next run is near."""
    try:
        due = list(_due_routes())[:PROBES_A_RUN]
    except HealthUnavailable as error:
        _logger.warning("no route is probed for now: %s", error)
        return 0
    sound = asyncio.run(_ask_all(due)) if due else []
    return sum(_settle(one, is_sound=is_sound) for one, is_sound in zip(due, sound, strict=True))


def _due_routes() -> Iterator[_Due]:
    resting = {route for route, health in health_store().states().items() if health.cooling_s > 0}
    since = timezone.now() - datetime.timedelta(seconds=FIRST_S)
    out = {"status": RouteStatus.AUTO_DISABLED.value, "status_changed_at__lte": since}
    for row in ChannelRow.objects.filter(**out).order_by("status_changed_at"):
        yield from _due(Route(RouteKind.CHANNEL, row.pk), row, resting)
    keys = UpstreamKeyRow.objects.filter(**out, channel__status=RouteStatus.ENABLED.value)
    for key in keys.select_related("channel").order_by("status_changed_at"):
        yield from _due(Route(RouteKind.KEY, key.pk), key.channel, resting, key_id=key.pk)


def _due(route: Route, row: ChannelRow, resting: set[Route], key_id: int | None = None) -> Iterator[_Due]:
    channel = None if route in resting else load_channel(row.name, key_id=key_id)
    if channel is None or not channel.keys:
        return
    model = _model_to_ask(channel)
    if model:
        yield _Due(route, row.name, channel, model)


def _model_to_ask(channel: Channel) -> str:
    """A name the channel says it has, else the one it answered with last. Empty: nobody knows what to ask,
    and only an operator can switch it on again.
    """
    named = next((name for name in (*channel.model_mapping, *channel.models) if "*" not in name), "")
    return named or model_last_answered(channel.id)


async def _ask_all(due: list[_Due]) -> list[bool]:
    return list(await asyncio.gather(*(_is_sound(one) for one in due)))


async def _is_sound(due: _Due) -> bool:
    question = Question(due.model, prompt=_PROMPT, patience_s=PATIENCE_S)
    channel = replace(due.channel, keys=due.channel.keys[:1])
    try:
        async with asyncio.timeout(TOTAL_S):
            finding = await probe(channel, question, settings.UPSTREAM_ALLOWED_PRIVATE_NETS)
    except TimeoutError:
        return False
    return finding.attempt.committed


def _settle(due: _Due, *, is_sound: bool) -> bool:
    if is_sound:
        has_recovered = route_recover(route=due.route)
        if has_recovered:
            _logger.warning("%s %d (%s) came back", due.route.kind, due.route.id, due.name)
        return has_recovered
    try:
        failures = health_store().failed(due.route)
        wait_s = min(FIRST_S * 2 ** min(failures, 10), LONGEST_S)
        health_store().cool(due.route, wait_s, "probe failed")
    except HealthUnavailable as error:
        _logger.warning("a failed probe is not remembered: %s", error)
    return False
