"""Errors and CORS: whatever goes wrong is answered in the dialect, with an id, and readable in a browser."""

import logging

import pytest

from tests.flows.raw_http import Answer, ask, request_bytes
from tests.flows.server import RunningServer

ORIGIN = ("Origin", "https://app.example")


@pytest.fixture
def cors_for_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.conf.settings.CORS_ORIGINS", ("https://app.example",))


def assert_openai_error(answer: Answer, status: int, code: str | None) -> None:
    assert answer.status == status
    assert answer.header("content-type") == "application/json"
    assert set(answer.error) == {"message", "type", "param", "code", "request_id"}
    assert answer.error["code"] == code
    assert answer.error["request_id"] == answer.header("x-request-id")


async def test_refusal(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("GET", "/v1/refuse"))
    assert_openai_error(answer, 429, "rate_limited")
    assert answer.error["type"] == "rate_limit_error"
    assert answer.header("retry-after") == "7"


@pytest.mark.parametrize(
    ("path", "error_class"),
    [
        ("/v1/crash", "builtins.RuntimeError"),
        ("/v1/plain?crash=1", "builtins.RuntimeError"),
        ("/v1/plain?nothing=1", "builtins.TypeError"),
    ],
)
async def test_crash_is_500_without_details(
    front: RunningServer, path: str, error_class: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = await ask(front, request_bytes("GET", path))
    assert_openai_error(answer, 500, "internal_error")
    assert b"SECRET" not in answer.body
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    logged = errors[0].getMessage()
    assert errors[0].exc_info is None, "a traceback would end in the exception's own text"
    assert error_class in logged
    assert answer.error["request_id"] in logged
    assert 'File "' in logged, "it says where"
    assert "Error: " not in logged, "a source line may stand there, the exception's text not"


async def test_unknown_path(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("POST", "/v1/chat/complete", body=b"{}"))
    assert_openai_error(answer, 404, "unknown_url")
    assert "/v1/chat/complete" in answer.error["message"]


async def test_unknown_path_is_not_echoed_without_end(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("GET", "/v1/" + "a" * 9000))
    assert_openai_error(answer, 404, "unknown_url")
    assert len(answer.body) < 600


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("GET", "/v1/echo", "POST"), ("DELETE", "/v1/sync", "GET, HEAD"), ("HEAD", "/v1/echo", "POST")],
)
async def test_wrong_method(front: RunningServer, method: str, path: str, allow: str) -> None:
    answer = await ask(front, request_bytes(method, path))
    assert answer.status == 405
    assert answer.header("allow") == allow
    if method != "HEAD":
        assert_openai_error(answer, 405, "method_not_allowed")


async def test_invalid_parameter_names_the_field(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("GET", "/v1/big?size=many"))
    assert_openai_error(answer, 400, "invalid_value")
    assert answer.error["param"] == "size"


async def test_preflight_needs_no_key_and_allows_what_was_asked(
    front: RunningServer, cors_for_app: None
) -> None:
    asked = "authorization,content-type,x-stainless-arch,x-stainless-retry-count"
    raw = request_bytes(
        "OPTIONS",
        "/v1/chat/completions",
        ORIGIN,
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", asked),
    )
    answer = await ask(front, raw)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.header("access-control-allow-origin") == "https://app.example"
    assert answer.header("access-control-allow-methods") == "POST"
    assert answer.header("access-control-allow-headers") == asked
    assert "Origin" in (answer.header("vary") or "")


async def test_preflight_of_a_foreign_origin_gets_no_permission(
    front: RunningServer, cors_for_app: None
) -> None:
    raw = request_bytes(
        "OPTIONS", "/v1/echo", ("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")
    )
    answer = await ask(front, raw)
    assert answer.status == 204
    assert not [name for name, _ in answer.headers if name.startswith("access-control-allow")]


@pytest.mark.parametrize("path", ["/v1/refuse", "/v1/crash", "/v1/nope", "/v1/echo", "/v1/tick", "/v1/sync"])
async def test_every_answer_carries_cors_headers(front: RunningServer, cors_for_app: None, path: str) -> None:
    answer = await ask(front, request_bytes("GET", path, ORIGIN))
    assert answer.header("access-control-allow-origin") == "https://app.example"
    assert answer.header("access-control-expose-headers") == "*"
    assert answer.header("x-request-id")


async def test_any_origin(front: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.conf.settings.CORS_ORIGINS", ("*",))
    answer = await ask(front, request_bytes("GET", "/v1/refuse", ORIGIN))
    assert answer.header("access-control-allow-origin") == "*"


async def test_no_cors_headers_where_none_is_configured(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("GET", "/v1/sync", ORIGIN))
    assert answer.header("access-control-allow-origin") is None


async def test_plain_options_is_the_routes_business(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("OPTIONS", "/v1/echo"))
    assert_openai_error(answer, 405, "method_not_allowed")
