"""How one attempt will be made: what is asked of which upstream, and how long it may take.

Decides, does no I/O.
"""

from functools import lru_cache

import httpx
import msgspec

from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.failover import Kind
from relay.core.headers import upstream_headers
from relay.core.request import RelayRequest
from relay.core.selection import model_sent
from relay.core.stream_state import EARLY_COMMIT_FORCED_S, IMAGE_WHOLE_EXTRA_S, Limits
from relay.core.types import Channel, RelayFlags, StreamMode, StreamPolicy, UpstreamKey
from relay.core.upstream_kinds import UPSTREAM_KINDS
from relay.upstream.choices import Choice
from relay.upstream.modes import Mode, mode_of, policy_of, without_streaming
from relay.upstream.transports.contract import Target, UpstreamRequest


class AttemptPlan(msgspec.Struct, frozen=True):
    """decision: why this channel and key, for the record. model: in the tenant's words."""

    number: int
    channel: Channel
    key: UpstreamKey
    policy: StreamPolicy
    mode: Mode
    limits: Limits
    model: str
    model_sent: str
    decision: str
    possible_duplicate_charge: bool = False
    is_hedge: bool = False


def early_commit_s(request: RelayRequest, channel: Channel) -> float:
    """Seconds from the request's receipt to an early start of the answer; 0 = never."""
    if not request.ask.stream_form.can_begin_with_error:
        return 0.0
    if not request.ask.stream or not mode_of(request, channel).answers_with_stream:
        return 0.0
    policy = policy_of(request, channel)
    if policy.early_commit_s is not None:
        return policy.early_commit_s
    return EARLY_COMMIT_FORCED_S if policy.stream_policy is StreamMode.FORCE_NON_STREAM else 0.0


def limits_of(request: RelayRequest, channel: Channel, flags: RelayFlags, mode: Mode) -> Limits:
    """Timers follow what is asked of the upstream, not what the client asked."""
    policy = policy_of(request, channel)
    connect_s = channel.connect_timeout_s
    header_s = flags.image_header_timeout_s if request.is_image else flags.header_timeout_s
    if not request.is_image and policy.header_timeout_s > 0:
        header_s = policy.header_timeout_s
    whole_s = flags.non_stream_timeout_s
    if channel.non_stream_timeout_s > 0:
        whole_s = channel.non_stream_timeout_s
    elif request.is_image:
        whole_s = flags.image_header_timeout_s + IMAGE_WHOLE_EXTRA_S
    idle_s = policy.image_idle_timeout_s if request.is_image else policy.idle_timeout_s
    if mode is Mode.RAW or (mode is Mode.DRAWN and request.ask.stream):
        return Limits(
            connect_s=connect_s, header_s=header_s, idle_s=idle_s, first_event_s=policy.first_event_timeout_s
        )
    if request.is_image and not mode.asks_for_stream:
        return Limits(connect_s=connect_s, header_s=header_s, whole_s=whole_s, idle_s=idle_s)
    if not mode.asks_for_stream:
        return Limits(connect_s=connect_s, whole_s=whole_s)
    return Limits(
        connect_s=connect_s,
        header_s=header_s,
        whole_s=whole_s if mode is Mode.AGGREGATE else 0.0,
        first_event_s=policy.first_event_timeout_s,
        idle_s=idle_s,
        event_idle_s=policy.event_idle_timeout_s,
        total_s=policy.total_timeout_s,
    )


@lru_cache(maxsize=2048)
def _target(kind: str, base_url: str, path: str, query: str) -> tuple[Target, tuple[bytes, bytes]]:
    """And the `Host` field."""
    url = httpx.URL(UPSTREAM_KINDS[kind].url(base_url, path, query))
    return Target.of(url), (b"host", url.netloc)


@lru_cache(maxsize=1024)
def upstream_host(base_url: str) -> str:
    """Host or host:port, for records."""
    return httpx.URL(base_url).netloc.decode("ascii")


def upstream_request(request: RelayRequest, plan: AttemptPlan, secret: str) -> UpstreamRequest:
    """The request for the wire, complete.

    AttemptFailed (nothing sent) when the channel's settings cannot make one.
    """
    channel = plan.channel
    path, query = request.path, request.query
    if request.ask.target is not None:
        path, query = request.ask.target.at(model=plan.model_sent, stream=plan.mode.asks_for_stream)
    try:
        target, host = _target(channel.kind, channel.base_url, path, query)
        headers = _headers(request, plan, secret)
    except (KeyError, ValueError, httpx.InvalidURL) as error:
        raise AttemptFailed(
            EndReason.CONNECT_FAILED, error_class=f"configuration_{type(error).__name__}"
        ) from error
    body = request.dialect.build_request(
        request.ask,
        model=plan.model_sent,
        stream=plan.mode.asks_for_stream,
        request_usage=channel.request_stream_usage,
        overrides=channel.parameter_overrides,
    )
    headers.append(host)  # length and coding are the transport's
    return UpstreamRequest(request.method, target, headers, body)


def _headers(request: RelayRequest, plan: AttemptPlan, secret: str) -> list[tuple[bytes, bytes]]:
    channel = plan.channel
    headers = upstream_headers(request.headers)
    if channel.header_overrides:
        overrides = {n.lower().encode(): value.encode() for n, value in channel.header_overrides.items()}
        headers = [*(pair for pair in headers if pair[0] not in overrides), *overrides.items()]
    kind = UPSTREAM_KINDS[channel.kind]
    if kind.default_headers:
        given = {name for name, _ in headers}
        headers.extend(pair for pair in kind.default_headers if pair[0] not in given)
    headers.extend(kind.credentials(secret))
    if request.upstream_idempotency_key is not None:
        headers.append((b"idempotency-key", request.upstream_idempotency_key.encode()))
    return headers


def make_plan(request: RelayRequest, choice: Choice, flags: RelayFlags, *, number: int) -> AttemptPlan:
    channel = choice.channel
    mode = mode_of(request, channel)
    if choice.step.kind in {Kind.AS_WHOLE, Kind.LAST_RESORT}:
        mode = without_streaming(mode)
    return AttemptPlan(
        number=number,
        channel=channel,
        key=choice.key,
        policy=policy_of(request, channel),
        mode=mode,
        limits=limits_of(request, channel, flags, mode),
        model=choice.model,
        model_sent=model_sent(channel, choice.model),
        decision=choice.decision,
        possible_duplicate_charge=choice.step.possible_duplicate_charge,
        is_hedge=choice.step.kind is Kind.BACKUP,
    )
