"""Header and query hygiene in both directions."""

import pytest

from relay.core.headers import (
    clean_client_request_id,
    credential,
    response_headers,
    strip_credentials,
    upstream_headers,
    upstream_request_id,
)


def client_headers(upstream: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return response_headers(upstream).passed


def names(headers: list[tuple[bytes, bytes]]) -> list[bytes]:
    return [name for name, _ in headers]


def test_what_the_upstream_may_see() -> None:
    client = [
        (b"content-type", b"application/json"),
        (b"accept", b"text/event-stream"),
        (b"User-Agent", b"OpenAI/Python 2.0"),
        (b"openai-beta", b"assistants=v2"),
        (b"anthropic-version", b"2023-06-01"),
        (b"anthropic-beta", b"a"),
        (b"anthropic-beta", b"b"),
    ]
    assert upstream_headers(client) == [(name.lower(), value) for name, value in client]


NEVER = [
    b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie", b"proxy-authorization",
    b"openai-organization", b"openai-project", b"x-goog-user-project", b"anthropic-organization-id",
    b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-anything", b"forwarded", b"x-real-ip",
    b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"proxy-connection",
    b"host", b"content-length", b"accept-encoding", b"expect", b"idempotency-key", b"content-encoding",
]  # fmt: skip


@pytest.mark.parametrize("name", [*NEVER, b"x-stainless-os", b"x-request-id", b"origin", b"x-unknown"])
def test_what_the_upstream_never_sees(name: bytes) -> None:
    assert upstream_headers([(name, b"1"), (name.title(), b"2")]) == []


def test_headers_named_in_connection_do_not_pass() -> None:
    client = [(b"x-secret", b"1"), (b"openai-beta", b"1"), (b"accept", b"*/*"),
              (b"connection", b"close, OpenAI-Beta"), (b"Connection", b"X-Secret")]  # fmt: skip
    assert upstream_headers(client) == [(b"accept", b"*/*")]


def test_what_the_client_gets_back() -> None:
    upstream = [
        (b"Content-Type", b"audio/wav"),
        (b"content-disposition", b"attachment"),
        (b"content-encoding", b"gzip"),
        (b"content-range", b"bytes 0-1/2"),
        (b"accept-ranges", b"bytes"),
        (b"etag", b'"1"'),
        (b"cache-control", b"no-store"),
        (b"retry-after", b"7"),
        (b"openai-processing-ms", b"12"),
        (b"openai-version", b"2020-10-01"),
        (b"anthropic-something", b"x"),
    ]
    assert client_headers(upstream) == [(name.lower(), value) for name, value in upstream]


@pytest.mark.parametrize(
    "name",
    [
        b"set-cookie", b"server", b"date", b"openai-organization", b"openai-project", b"anthropic-organization-id",
        b"x-ratelimit-limit-requests", b"x-ratelimit-remaining-tokens", b"anthropic-ratelimit-requests-limit",
        b"ratelimit-limit", b"transfer-encoding", b"content-length", b"connection", b"keep-alive", b"location",
        b"access-control-allow-origin", b"alt-svc", b"cf-ray", b"strict-transport-security", b"www-authenticate",
        b"via", b"x-envoy-upstream-service-time", b"azureml-model-session",
    ],
)  # fmt: skip
def test_what_does_not_come_back(name: bytes) -> None:
    assert client_headers([(name, b"1")]) == []


@pytest.mark.parametrize("name", [b"x-request-id", b"request-id", b"X-Request-Id", b"apim-request-id"])
def test_the_upstreams_request_id_comes_back_under_its_own_name(name: bytes) -> None:
    assert client_headers([(name, b"req_7")]) == [(b"x-upstream-request-id", b"req_7")]
    assert upstream_request_id([(b"a", b"b"), (name, b"req_7")]) == "req_7"


def test_upstream_request_id_is_bounded_and_clean() -> None:
    assert upstream_request_id([]) == ""
    assert upstream_request_id([(b"x-request-id", b"a\r\nb\xff" + b"c" * 500)]) == "ab" + "c" * 123
    assert upstream_request_id([(b"request-id", b"second"), (b"x-request-id", b"first")]) == "first"
    assert upstream_request_id([(b"x-request-id", b""), (b"request-id", b"second")]) == "second"


def test_response_headers_named_in_connection_do_not_come_back() -> None:
    assert client_headers([(b"connection", b"ETag"), (b"etag", b"1"), (b"retry-after", b"1")]) == [
        (b"retry-after", b"1")
    ]


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("", ""),
        ("key=AIza", ""),
        ("alt=sse&key=AIza", "alt=sse"),
        ("key=AIza&alt=sse", "alt=sse"),
        ("b=2&api_key=x&a=%7e&api-key=y&a=1&access_token=z&token=t&c", "b=2&a=%7e&a=1&c"),
        ("KEY=x&Api_Key=y", ""),
        ("%6bey=x&k%65y=y", ""),
        ("key", ""),
        ("keyword=x&monkey=y&pageToken=z&max_token=1", "keyword=x&monkey=y&pageToken=z&max_token=1"),
        ("q=a+b%20c&&x=", "q=a+b%20c&&x="),
    ],
)
def test_strip_credentials(query: str, left: str) -> None:
    assert strip_credentials(query) == left


def test_credential_precedence() -> None:
    headers = [(b"api-key", b"azure"), (b"x-goog-api-key", b"goog"), (b"x-api-key", b"anthropic"),
               (b"authorization", b"Bearer openai")]  # fmt: skip
    query = "alt=sse&key=que%2Bry"
    seen = []
    for name in (b"authorization", b"x-api-key", b"x-goog-api-key"):
        seen.append(credential(headers, query))
        headers = [header for header in headers if header[0] != name]
    seen.extend([credential(headers, query), credential(headers, ""), credential([], "")])
    assert seen == ["openai", "anthropic", "goog", "que+ry", "azure", None]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"Bearer k", "k"),
        (b"bearer  k ", "k"),
        (b"BEARER k", "k"),
        (b"Basic k", None),
        (b"Bearer", None),
        (b"", None),
    ],
)
def test_authorization_header(value: bytes, found: str | None) -> None:
    assert credential([(b"Authorization", value)], "") == found


def test_empty_credential_does_not_hide_another() -> None:
    assert credential([(b"authorization", b"Bearer "), (b"x-api-key", b"k")], "") == "k"


@pytest.mark.parametrize(
    ("value", "clean"),
    [("req-1", "req-1"), ("", ""), ("a b\nc", "abc"), ("é1", "1"), ("x" * 1000, "x" * 128), ("a\x00b", "ab")],
)
def test_client_request_id(value: str, clean: str) -> None:
    assert clean_client_request_id(value) == clean
