"""The retry table, health effects, and what the client is told in the end."""

import datetime

import pytest

from relay.core.end_reasons import EndReason, HealthEffect
from relay.core.errors import AttemptFailed, Refusal
from relay.core.retry import (
    final_refusal,
    parse_retry_after,
    rejection_effect,
    starts_another_attempt,
)

NOW = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC)

ANOTHER = {
    EndReason.CONNECT_FAILED, EndReason.HEADER_TIMEOUT, EndReason.FIRST_BYTE_TIMEOUT, EndReason.FIRST_EVENT_TIMEOUT,
    EndReason.UPSTREAM_ERROR_EVENT, EndReason.BAD_CONTENT_TYPE, EndReason.EMPTY_RESPONSE,
    EndReason.UPSTREAM_PROTOCOL_ERROR, EndReason.INCOMPLETE, EndReason.UPSTREAM_RESET,
}  # fmt: skip
ANOTHER_STATUSES = {401, 402, 403, 408, 409, 425, 429, *range(500, 600)}


def rejected(status: int, **fields: str) -> AttemptFailed:
    return AttemptFailed(EndReason.UPSTREAM_REJECTED, status=status, **fields)  # type: ignore[arg-type]  # only text fields


def failed(reason: EndReason, **fields: str) -> AttemptFailed:
    return AttemptFailed(reason, **fields)  # type: ignore[arg-type]  # only text fields


def told(refusal: Refusal) -> tuple[int, str | None]:
    return refusal.status, refusal.code


@pytest.mark.parametrize(
    "reason", [reason for reason in EndReason if reason is not EndReason.UPSTREAM_REJECTED]
)
@pytest.mark.parametrize("claimed", [True, False])
def test_which_ends_start_another_attempt(reason: EndReason, claimed: bool) -> None:
    assert starts_another_attempt(AttemptFailed(reason, status=200), claimed=claimed) is (reason in ANOTHER)
    assert starts_another_attempt(AttemptFailed(reason), claimed=claimed) is (reason in ANOTHER)


@pytest.mark.parametrize("status", range(300, 620))
def test_which_statuses_start_another_attempt(status: int) -> None:
    assert starts_another_attempt(rejected(status), claimed=False) is (status in ANOTHER_STATUSES)
    assert starts_another_attempt(rejected(status), claimed=True) is (status in ANOTHER_STATUSES | {404})


@pytest.mark.parametrize("status", [200, 400, 413, 500, 503])
@pytest.mark.parametrize("reason", [EndReason.UPSTREAM_REJECTED, EndReason.UPSTREAM_ERROR_EVENT])
def test_a_context_length_error_is_the_requests_own_whatever_carries_it(
    status: int, reason: EndReason
) -> None:
    failure = AttemptFailed(reason, status=status, code="context_length_exceeded")
    assert not starts_another_attempt(failure, claimed=True)


def test_an_error_event_with_a_status_follows_the_status() -> None:
    def error_event(status: int) -> AttemptFailed:
        return AttemptFailed(EndReason.UPSTREAM_ERROR_EVENT, status=status)

    assert not starts_another_attempt(error_event(400), claimed=True)
    assert starts_another_attempt(error_event(529), claimed=True)


@pytest.mark.parametrize("status", range(300, 620))
def test_effect_of_a_rejection_on_health(status: int) -> None:
    bad = status in {401, 402, 403, 408} or 500 <= status < 600
    assert (rejection_effect(status, claimed=False) is HealthEffect.FAILURE) is bad
    assert (rejection_effect(status, claimed=True) is HealthEffect.FAILURE) is (bad or status == 404)
    if not bad and status != 404:
        assert rejection_effect(status, claimed=True) is HealthEffect.NEUTRAL


@pytest.mark.parametrize("status", [400, 404, 413, 415, 422])
def test_a_requests_own_fault_keeps_everything(status: int) -> None:
    refusal = final_refusal(
        [
            failed(EndReason.CONNECT_FAILED),
            rejected(
                status,
                message="Unsupported value: 'x'",
                code="unsupported_value",
                kind="invalid_request_error",
                param="messages[0].content",
            ),
        ]
    )
    assert told(refusal) == (status, "unsupported_value")
    assert (refusal.message, refusal.kind, refusal.param) == (
        "Unsupported value: 'x'",
        "invalid_request_error",
        "messages[0].content",
    )


@pytest.mark.parametrize(
    ("failures", "status", "code"),
    [
        ([rejected(500)], 500, None),
        ([rejected(503), rejected(429)], 429, None),
        ([rejected(429), failed(EndReason.CONNECT_FAILED)], 429, None),
        ([rejected(500), failed(EndReason.HEADER_TIMEOUT)], 500, None),
        ([rejected(429), rejected(401)], 429, None),
        ([failed(EndReason.CONNECT_FAILED)], 502, "upstream_error"),
        ([rejected(302)], 502, "upstream_error"),
        ([failed(EndReason.HEADER_TIMEOUT)], 504, "upstream_timeout"),
        ([failed(EndReason.CONNECT_FAILED), failed(EndReason.FIRST_BYTE_TIMEOUT)], 504, "upstream_timeout"),
        ([failed(EndReason.FIRST_EVENT_TIMEOUT)], 504, "upstream_timeout"),
        ([failed(EndReason.NON_STREAM_TIMEOUT)], 504, "upstream_timeout"),
        ([failed(EndReason.IDLE_TIMEOUT)], 504, "upstream_timeout"),
        ([failed(EndReason.CONNECT_FAILED, error_class="ConnectTimeout")], 504, "upstream_timeout"),
        ([failed(EndReason.HEADER_TIMEOUT), failed(EndReason.CONNECT_FAILED)], 502, "upstream_error"),
        ([rejected(401)], 502, "upstream_credentials_exhausted"),
        ([rejected(401), rejected(402), rejected(403)], 502, "upstream_credentials_exhausted"),
        ([rejected(401), failed(EndReason.CONNECT_FAILED)], 502, "upstream_error"),
        ([failed(EndReason.RESPONSE_TOO_LARGE)], 502, "response_too_large"),
        ([failed(EndReason.BAD_CONTENT_TYPE)], 502, "upstream_error"),
        ([failed(EndReason.UPSTREAM_ERROR_EVENT, kind="overloaded_error")], 503, None),
        (
            [failed(EndReason.UPSTREAM_ERROR_EVENT, kind="authentication_error")],
            502,
            "upstream_credentials_exhausted",
        ),
        (
            [rejected(403), failed(EndReason.UPSTREAM_ERROR_EVENT, kind="permission_error")],
            502,
            "upstream_credentials_exhausted",
        ),
        (
            [failed(EndReason.UPSTREAM_ERROR_EVENT, code="context_length_exceeded")],
            400,
            "context_length_exceeded",
        ),
        ([], 503, "no_channel_available"),
    ],
)
def test_what_the_client_is_told(failures: list[AttemptFailed], status: int, code: str | None) -> None:
    assert told(final_refusal(failures)) == (status, code)


@pytest.mark.parametrize("status", [401, 402, 403])
def test_a_credential_refusal_never_reaches_the_tenant(status: int) -> None:
    refusal = final_refusal(
        [rejected(status, message="Incorrect API key provided: sk-abc", code="invalid_api_key")]
    )
    assert refusal.status == 502
    assert "API key" not in refusal.message
    assert refusal.code != "invalid_api_key"


@pytest.mark.parametrize("kind", ["authentication_error", "billing_error", "permission_error"])
def test_neither_does_one_inside_a_200(kind: str) -> None:
    failure = failed(EndReason.UPSTREAM_ERROR_EVENT, kind=kind, message="No such API key", code="bad_key")
    assert "API key" not in final_refusal([failure]).message


def test_retry_after_is_kept_for_429() -> None:
    assert final_refusal([rejected(429, retry_after="7")]).retry_after_s == 7
    assert final_refusal([rejected(429)]).retry_after_s is None
    assert final_refusal([rejected(400, retry_after="7")]).retry_after_s is None
    date = "Sun, 01 Mar 2026 12:00:30 GMT"
    assert final_refusal([rejected(429, retry_after=date)], now=NOW).retry_after_s == 30
    assert final_refusal([rejected(429, retry_after=date)]).retry_after_s is None


def test_nothing_of_the_operators_comes_through() -> None:
    refusal = final_refusal(
        [
            rejected(
                500,
                message="proxy to https://llm.internal:8443/x failed, key sk-secret-1234",
                code="sk-secret-1234",
                kind="see https://internal",
                param="https://x",
            )
        ]
    )
    assert refusal.message == "proxy to [url] failed, key [redacted]"
    assert (refusal.code, refusal.kind, refusal.param) == (None, "api_error", None)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7), (" 7 ", 7), ("0", 0), ("1.2", 2), ("600", 600), ("601", 600), ("999999999", 600), ("-1", None),
        ("", None), (None, None), ("soon", None), ("1e3", None), ("٣", None), ("9" * 5000, None), ("nan", None),
        ("Sun, 01 Mar 2026 12:00:07 GMT", 7), ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
        ("Sun, 01 Mar 2026 13:00:00 GMT", 600), ("Sunday, 01-Mar-26 12:00:07 GMT", 7),
        ("Sun, 01 Mar 2026 14:00:07 +0200", 7), ("Sun, 99 Mar 2026 12:00:07 GMT", None),
        ("Sun Mar  1 12:00:07 2026", 7),
    ],
)  # fmt: skip
def test_parse_retry_after(value: str | None, seconds: int | None) -> None:
    assert parse_retry_after(value, NOW) == seconds
