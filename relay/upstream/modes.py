"""What is asked of a channel for one request: a stream or a whole answer, and under which policy."""

from enum import StrEnum

from relay.core.dialects.opaque import OPAQUE
from relay.core.request import RelayRequest
from relay.core.types import Channel, DisconnectPolicy, StreamMode, StreamPolicy


class Mode(StrEnum):
    """What the upstream is asked for, and what the client gets."""

    STREAM = "stream"
    """A stream for a stream."""
    WHOLE = "whole"
    """A whole answer for a whole answer."""
    AGGREGATE = "aggregate"
    """`force_stream`: a stream, made whole for the client."""
    EXPLODE = "explode"
    """`force_non_stream`: a whole answer, sent to the client as a stream."""
    RAW = "raw"
    """Pass-through: whatever comes, as it comes."""
    DRAWN = "drawn"
    """A picture: a JSON body is looked at before it goes on, anything else passes through."""

    @property
    def asks_for_stream(self) -> bool:
        return self in {Mode.STREAM, Mode.AGGREGATE}

    @property
    def answers_with_stream(self) -> bool:
        return self in {Mode.STREAM, Mode.EXPLODE}


_WITHOUT_STREAMING = {Mode.STREAM: Mode.EXPLODE, Mode.AGGREGATE: Mode.WHOLE}


def policy_of(request: RelayRequest, channel: Channel) -> StreamPolicy:
    """The model route's, else the channel's, which is the default one where it names none."""
    route = request.route
    return channel.policy if route is None or route.policy is None else route.policy


def mode_of(request: RelayRequest, channel: Channel) -> Mode:
    if request.ask.is_raw or request.dialect is OPAQUE:
        return Mode.DRAWN if request.is_image else Mode.RAW
    if not request.ask.has_streamed_form:
        return Mode.WHOLE
    match policy_of(request, channel).stream_policy, request.ask.stream:
        case StreamMode.FORCE_STREAM, False:
            return Mode.AGGREGATE
        case StreamMode.FORCE_NON_STREAM, True:
            return Mode.EXPLODE
        case _, True:
            return Mode.STREAM
        case _:
            return Mode.WHOLE


def without_streaming(mode: Mode) -> Mode:
    """The same for the client, but the upstream is asked for a whole answer."""
    return _WITHOUT_STREAMING.get(mode, mode)


def may_race(request: RelayRequest, channel: Channel) -> bool:
    """Whether an attempt at this channel may run beside another one.

    Only where it streams, so that it soon shows which is better, and where an attempt that is cut off is not
    read on and billed in full.
    """
    is_drained = policy_of(request, channel).disconnect_policy is DisconnectPolicy.DRAIN
    return mode_of(request, channel).asks_for_stream and not is_drained
