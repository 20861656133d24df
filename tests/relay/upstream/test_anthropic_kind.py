"""Where a channel of Anthropic's kind is asked, and with which headers."""

import dataclasses

import httpx
import msgspec
import pytest

from relay.core.selection import ChannelIndex
from relay.core.upstream_kinds import UPSTREAM_KINDS, speaks
from tests.fakes.runtime import Client, a_channel, a_request

KIND = UPSTREAM_KINDS["anthropic"]


async def sent(runtime, *headers, base_url="https://api.anthropic.com", query="", **channel) -> httpx.Request:
    """What the upstream is asked when a client came with these headers."""
    asked = a_request(dialect="anthropic", path="/v1/messages", received_at=runtime.clock.now())
    asked = msgspec.structs.replace(asked, headers=headers, query=query)
    to = dataclasses.replace(a_channel(base_url, **channel), kind="anthropic")
    client = Client(runtime.engine.start(asked, (to,)))
    exchange = await runtime.sent()
    await client.leave()
    return exchange.request


async def test_the_credential_is_its_own_header(runtime):
    request = await sent(
        runtime,
        (b"content-type", b"application/json"),
        (b"authorization", b"Bearer sk-tenant"),
        (b"x-api-key", b"t"),
    )
    assert request.headers.get_list("x-api-key") == ["sk-upstream-1"]
    assert "authorization" not in request.headers


async def test_the_version_has_a_default(runtime):
    assert (await sent(runtime)).headers.get_list("anthropic-version") == ["2023-06-01"]


async def test_the_clients_own_version_passes(runtime):
    request = await sent(runtime, (b"Anthropic-Version", b"2026-10-21"), (b"anthropic-beta", b"a,b"))
    assert request.headers.get_list("anthropic-version") == ["2026-10-21"]
    assert request.headers["anthropic-beta"] == "a,b"


async def test_a_channels_own_version_counts(runtime):
    request = await sent(runtime, header_overrides={"anthropic-version": "2024-01-01"})
    assert request.headers.get_list("anthropic-version") == ["2024-01-01"]


async def test_account_selectors_do_not_pass(runtime):
    request = await sent(runtime, (b"anthropic-workspace-id", b"w"), (b"anthropic-organization-id", b"o"))
    assert not {"anthropic-workspace-id", "anthropic-organization-id"} & set(request.headers)


@pytest.mark.parametrize(
    ("base_url", "query", "url"),
    [
        ("https://api.anthropic.com", "", "https://api.anthropic.com/v1/messages"),
        (
            "https://api.deepseek.com/anthropic",
            "beta=true",
            "https://api.deepseek.com/anthropic/v1/messages?beta=true",
        ),
    ],
)
async def test_where_it_is_asked(runtime, base_url, query, url):
    assert str((await sent(runtime, base_url=base_url, query=query)).url) == url


def test_a_secret_that_cannot_be_a_header_is_refused():
    with pytest.raises(ValueError, match="ascii"):
        KIND.credentials("schlüssel")


@pytest.mark.parametrize(
    ("kind", "dialect", "does"),
    [
        ("anthropic", "anthropic", True),
        ("anthropic", "anthropic_count_tokens", True),
        ("anthropic", "openai_chat", False),
        ("anthropic", "opaque", False),
        ("openai", "anthropic", False),
        ("openai", "anthropic_count_tokens", False),
        ("openai", "openai_chat", True),
        ("no such kind", "anthropic", False),
    ],
)
def test_who_speaks_what(kind, dialect, does):
    assert speaks(kind, dialect) is does


def test_a_channel_is_found_in_its_own_dialect_only():
    theirs = dataclasses.replace(a_channel(number=1), kind="anthropic", models=("m",))
    ours = dataclasses.replace(a_channel(number=2), models=("m",))
    index = ChannelIndex([theirs, ours])
    assert index.tiers("default", "m", "anthropic") == ((theirs,),)
    assert index.tiers("default", "m", "openai_chat") == ((ours,),)
    assert not ChannelIndex([ours]).is_listed("default", "m", "anthropic")
    assert ChannelIndex([ours]).is_listed("default", "m")
