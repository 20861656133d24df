"""Asks upstreams for usage that an answer did not tell, and has the difference booked.

With the upstream key that got the answer, and through the relay's own transport: its guard of addresses and
the channel's proxy hold here, too.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import httpx
from django.conf import settings

from billing.db_errors import TRANSIENT_ERRORS
from billing.services.later_usage import later_usage_book
from billing.services.usage_lookups import ClaimedLookup, usage_lookup_failed, usage_lookups_claim
from channels_admin.models import Channel as ChannelRow
from channels_admin.snapshots import load_channel
from relay.core.errors import SecretUnavailable
from relay.core.types import Channel
from relay.core.upstream_kinds import KINDS_THAT_TELL_USAGE_LATER, UPSTREAM_KINDS
from relay.core.upstream_kinds.base import TellsUsageLater
from relay.core.usage import TokenUsage
from relay.upstream.transports.build import build_transport
from relay.upstream.transports.contract import EXT_CONNECT_TIMEOUT_S, EXT_PROXY, BodyStream, RelayTransport

TOTAL_S = 20.0
"""Of one run, which asks all at once."""
_BODY_MAX_BYTES = 256 * 1024

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Question:
    kind: TellsUsageLater
    request: httpx.Request


class _NothingTold(Exception):
    """The text is an error class, fit for records."""


def look_up_due_usage() -> int:
    """How many charges were put right or found right. Errors: `TRANSIENT_ERRORS`; the tries that were begun
    count, and the next ones are due later.
    """
    claimed = usage_lookups_claim()
    if not claimed:
        return 0
    questions = [_question_or_error(lookup) for lookup in claimed]
    told = asyncio.run(_ask_all(questions))
    return sum(_settle(lookup, answer) for lookup, answer in zip(claimed, told, strict=True))


def _settle(lookup: ClaimedLookup, told: TokenUsage | str) -> bool:
    """told: the usage, or an error class. One that cannot be booked does not hold up the others."""
    if isinstance(told, str):
        usage_lookup_failed(lookup, error_class=told)
        return False
    try:
        return later_usage_book(request_id=lookup.request_id, usage=told)
    except TRANSIENT_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001  kept with the look-up, by its class
        usage_lookup_failed(lookup, error_class=f"not_booked_{type(error).__name__}")
        _logger.warning("usage told later was not booked: %s", type(error).__name__)
        return False


def _question_or_error(lookup: ClaimedLookup) -> _Question | str:
    try:
        return _question(lookup)
    except SecretUnavailable as error:
        return f"secret_{error}"
    except _NothingTold as error:
        return str(error)
    except (ValueError, httpx.InvalidURL) as error:
        return f"configuration_{type(error).__name__}"


def _question(lookup: ClaimedLookup) -> _Question:
    channel = _channel(lookup)
    kind = KINDS_THAT_TELL_USAGE_LATER.get(channel.kind)
    if kind is None:
        raise _NothingTold("kind_tells_nothing")
    url = httpx.URL(kind.usage_url(channel.base_url, lookup.answer_id))
    request = httpx.Request("GET", url, headers=_headers(channel, url))
    request.extensions = {
        EXT_CONNECT_TIMEOUT_S: channel.connect_timeout_s,
        EXT_PROXY: channel.proxy_url or None,
    }
    return _Question(kind, request)


def _channel(lookup: ClaimedLookup) -> Channel:
    """With the one key that got the answer, whether it is in use any more or not."""
    name = ChannelRow.objects.filter(pk=lookup.channel_id).values_list("name", flat=True).first()
    channel = None if name is None else load_channel(name, key_id=lookup.upstream_key_id)
    if channel is None or not channel.keys:
        raise _NothingTold("no_upstream_key")
    return channel


def _headers(channel: Channel, url: httpx.URL) -> list[tuple[bytes, bytes]]:
    own = {name.lower().encode(): value.encode() for name, value in channel.header_overrides.items()}
    credentials = UPSTREAM_KINDS[channel.kind].credentials(channel.keys[0].secret.reveal())
    fixed = ((b"host", url.netloc), (b"accept", b"application/json"), *credentials)
    given = {name for name, _ in fixed}
    return [*(pair for pair in own.items() if pair[0] not in given), *fixed]


async def _ask_all(questions: Sequence[_Question | str]) -> list[TokenUsage | str]:
    transport = build_transport(settings.UPSTREAM_ALLOWED_PRIVATE_NETS)
    await transport.start()
    try:
        return list(await asyncio.gather(*(_told(transport, one) for one in questions)))
    finally:
        await transport.aclose()


async def _told(transport: RelayTransport, question: _Question | str) -> TokenUsage | str:
    """Never raises for what an upstream does."""
    if isinstance(question, str):
        return question
    try:
        async with asyncio.timeout(TOTAL_S):
            usage = question.kind.usage_told(await _body(transport, question.request))
    except _NothingTold as error:
        return str(error)
    except ValueError:
        return "unreadable"
    except TimeoutError:
        return "timeout"
    except httpx.TransportError as error:
        return type(error).__name__
    return "not_counted_yet" if usage is None else usage


async def _body(transport: RelayTransport, request: httpx.Request) -> bytes:
    response = await transport.handle_async_request(request)
    stream = response.stream
    assert isinstance(stream, BodyStream)  # noqa: S101  our transports give nothing else
    try:
        if response.status_code != httpx.codes.OK:
            raise _NothingTold(f"status_{response.status_code}")
        parts: list[bytes] = []
        while data := await stream.read_some():
            parts.append(data)
            if sum(map(len, parts)) > _BODY_MAX_BYTES:
                raise _NothingTold("too_large")
        return b"".join(parts)
    finally:
        await stream.aclose()
