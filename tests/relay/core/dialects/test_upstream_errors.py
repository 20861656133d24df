"""An upstream's error, any vendor's shape; whatever comes, a bounded text and never an exception."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.core.dialects import OPAQUE, OPENAI_CHAT
from relay.core.dialects.base import UpstreamError
from relay.core.dialects.upstream_errors import MAX_MESSAGE_CHARS, error_in_event


def parse(body: object, status: int = 400) -> UpstreamError:
    return OPENAI_CHAT.parse_error(body if isinstance(body, bytes) else json.dumps(body).encode(), status)


@pytest.mark.parametrize("error", ["Overl\ud83doaded", {"message": "Overl\ud83doaded"}])
def test_half_a_surrogate_pair_hides_no_message(error):
    assert error_in_event(json.dumps({"error": error})).message == "Overl\ud83doaded"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {
                "error": {
                    "message": "No such model",
                    "type": "invalid_request_error",
                    "param": "model",
                    "code": "mnf",
                }
            },
            UpstreamError("No such model", "invalid_request_error", "mnf", "model", 400),
        ),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            UpstreamError("Overloaded", "overloaded_error", "", None, 400),
        ),
        (
            {"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}},
            UpstreamError("API key not valid", "INVALID_ARGUMENT", "400", None, 400),
        ),
        (
            [{"error": {"code": 429, "message": "Quota", "status": "RESOURCE_EXHAUSTED"}}],
            UpstreamError("Quota", "RESOURCE_EXHAUSTED", "429", None, 400),
        ),
        ({"detail": "Not authenticated"}, UpstreamError("Not authenticated", "detail", "", None, 400)),
        (
            {
                "detail": [
                    {
                        "loc": ["body", "messages", 0],
                        "msg": "Field required",
                        "type": "missing",
                        "input": "secret",
                    }
                ]
            },
            UpstreamError("body.messages.0: Field required", "detail", "", None, 400),
        ),
        (
            {"object": "error", "message": "Bad", "type": "BadRequest"},
            UpstreamError("Bad", "BadRequest", "", None, 400),
        ),
        ({"error": "model 'x' not found"}, UpstreamError("model 'x' not found", "", "", None, 400)),
        (
            {"code": "Throttling", "message": "Slow down"},
            UpstreamError("Slow down", "", "Throttling", None, 400),
        ),
        (
            {"message": "Forbidden"},
            UpstreamError("The upstream answered with status 400.", "unknown", "", None, 400),
        ),
        (b"upstream connect error", UpstreamError("upstream connect error", "text", "", None, 400)),
        (b"", UpstreamError("The upstream answered with status 400.", "empty", "", None, 400)),
        (
            b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>internal-host</body></html>",
            UpstreamError("502 Bad Gateway", "html", "", None, 400),
        ),
        (
            b"<html><body>internal-host</body></html>",
            UpstreamError("The upstream answered with a web page.", "html", "", None, 400),
        ),
    ],
)
def test_known_shapes(body, expected):
    assert parse(body) == expected
    assert OPAQUE.parse_error(body if isinstance(body, bytes) else json.dumps(body).encode(), 400) == expected


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "x" * 100_000, "type": "y" * 100_000, "code": "z" * 100_000}},
        {"error": "x" * 100_000},
        {"detail": [{"loc": ["a" * 50] * 500, "msg": "b" * 500}] * 20},
        b"x" * 5_000_000,
        b"<html><title>" + b"x" * 100_000,
    ],
)
def test_texts_are_bounded(body):
    error = parse(body)
    assert 0 < len(error.message) <= MAX_MESSAGE_CHARS
    assert len(error.kind) <= 100
    assert len(error.code) <= 100


@pytest.mark.parametrize(
    "body", [b'{"error":' + b"[" * 100_000, b'{"error":{"message":"\\ud800"}}', b"\xff\xfe", b"{"]
)
def test_broken_bodies_become_text(body):
    assert parse(body).kind == "text"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "msg", "detail", "code", "type", "object", "base_resp", "loc", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_never_raises(body):
    error = parse(body, 500)
    assert isinstance(error.message, str)
    assert error.message
    assert len(error.message) <= MAX_MESSAGE_CHARS
