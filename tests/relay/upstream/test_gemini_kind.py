"""Where a channel of Google's kind is asked, and with which headers."""

import dataclasses

import httpx
import msgspec
import orjson
import pytest

from relay.core.upstream_kinds import UPSTREAM_KINDS, speaks
from tests.fakes.runtime import Client, a_channel, a_request
from tests.relay.core.dialects.gemini_samples import GENERATE, QUESTION

KIND = UPSTREAM_KINDS["gemini"]
GOOGLE = "https://generativelanguage.googleapis.com"


async def sent(runtime, *headers, base_url=GOOGLE, path=GENERATE, query="", **channel) -> httpx.Request:
    """What the upstream is asked when a client came with these headers."""
    asked = a_request(
        dialect="gemini",
        path=path,
        query=query,
        body=orjson.dumps(QUESTION),
        received_at=runtime.clock.now(),
    )
    asked = msgspec.structs.replace(asked, headers=headers)
    to = dataclasses.replace(a_channel(base_url, **channel), kind="gemini")
    client = Client(runtime.engine.start(asked, (to,)))
    exchange = await runtime.sent()
    await client.leave()
    return exchange.request


async def test_the_credential_is_its_own_header(runtime):
    request = await sent(
        runtime,
        (b"content-type", b"application/json"),
        (b"authorization", b"Bearer sk-tenant"),
        (b"x-goog-api-key", b"t"),
        (b"x-goog-user-project", b"p"),
        (b"x-goog-fieldmask", b"candidates"),
    )
    assert request.headers.get_list("x-goog-api-key") == ["sk-upstream-1"]
    assert not {"authorization", "x-goog-user-project", "x-goog-fieldmask"} & set(request.headers)


@pytest.mark.parametrize(
    ("base_url", "path", "asked"),
    [
        (GOOGLE, GENERATE, GOOGLE + GENERATE),
        (GOOGLE, "/v1/models/m:generateContent", f"{GOOGLE}/v1/models/m:generateContent"),
        (f"{GOOGLE}/v1beta", GENERATE, GOOGLE + GENERATE),
        (f"{GOOGLE}/v1beta/", "/v1/models/m:generateContent", f"{GOOGLE}/v1beta/models/m:generateContent"),
        ("https://proxy.test/google", GENERATE, f"https://proxy.test/google{GENERATE}"),
        ("https://proxy.test/a/v1beta", "/v1/models/m:generateContent", "https://proxy.test/a/v1beta/models/m:generateContent"),
    ],
)  # fmt: skip
async def test_where_it_is_asked(runtime, base_url, path, asked):
    """A base URL that names the version has no other."""
    assert str((await sent(runtime, base_url=base_url, path=path)).url) == asked


async def test_the_mapping_rewrites_the_path(runtime):
    request = await sent(runtime, model_mapping={"gemini-2.5-flash": "tunedModels/mine"})
    assert request.url.raw_path == b"/v1beta/tunedModels/mine:generateContent"
    assert orjson.loads(request.content) == QUESTION


async def test_a_name_with_slashes_stays_as_it_was_spelt(runtime):
    request = await sent(runtime, path="/v1beta/models/org%2Fname:generateContent", query="a=%20b")
    assert request.url.raw_path == b"/v1beta/models/org%2Fname:generateContent?a=%20b"


def test_a_secret_that_cannot_be_a_header_is_refused():
    with pytest.raises(ValueError, match="ascii"):
        KIND.credentials("schlüssel")


@pytest.mark.parametrize(
    ("kind", "dialect", "does"),
    [
        ("gemini", "gemini", True),
        ("gemini", "gemini_array", True),
        ("gemini", "gemini_count_tokens", True),
        ("gemini", "gemini_vectors", True),
        ("gemini", "gemini_predict", True),
        ("gemini", "openai_chat", False),
        ("gemini", "opaque", False),
        ("openai", "gemini", False),
        ("anthropic", "gemini", False),
    ],
)
def test_who_speaks_what(kind, dialect, does):
    assert speaks(kind, dialect) is does
