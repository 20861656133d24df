"""What a tenant must not read in an upstream's message, and what it must still be able to read."""

import time

import pytest

from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.scrubbing import scrub, scrub_failure


@pytest.mark.parametrize(
    ("message", "clean"),
    [
        ("see https://platform.openai.com/account/api-keys.", "see [url]"),
        ("dial tcp 10.1.2.3:8443: refused", "dial tcp [host]: refused"),
        ("cannot reach vllm-0.vllm.models.svc.cluster.local:8000", "cannot reach [host]"),
        ("cannot reach gpu-box.lan", "cannot reach [host]"),
        ("cannot reach node7.weird:8000", "cannot reach [host]"),
        ("connect to localhost:11434 failed", "connect to [host] failed"),
        ("connect to [fd00::1:2:3]:80 failed", "connect to [host] failed"),
        (
            "Incorrect API key provided: sk-proj-****************abcd.",
            "Incorrect API key provided: [redacted]",
        ),
        ("Incorrect API key provided: sk-ab12CD.", "Incorrect API key provided: [redacted]"),
        ("bad key AIzaSyA1234567890abcdefghijklmnopqrstu", "bad key [redacted]"),
        ("header Authorization: Bearer abcdef123456", "header Authorization: Bearer [redacted]"),
        ('{"api_key": "3f9a0c11d2"}', '{"api_key: [redacted]"}'),
        ("token 0123456789abcdef0123456789abcdef is bad", "token [redacted] is bad"),
        ("token Ab3-Ab3-Ab3-Ab3-Ab3-Ab3-Ab3-Ab3-Ab3-Ab3-Ab3 is bad", "token [redacted] is bad"),
        ("resource 123e4567-e89b-12d3-a456-426614174000", "resource [id]"),
        (
            "limit reached in organization org-Ab12Cd34Ef56 on tokens",
            "limit reached in organization [account] on tokens",
        ),
        ("a\r\nb\x00c", "a b c"),
    ],
)
def test_what_is_taken_out(message: str, clean: str) -> None:
    assert scrub(message) == clean


@pytest.mark.parametrize(
    "message",
    [
        "",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130123 tokens.",
        "Invalid value for 'messages.0.content': expected a string.",
        "Unsupported parameter: 'max_completion_tokens_details'. Use tools.function.parameters instead.",
        "The model `meta-llama/Llama-3.2-90B-Vision-Instruct-Turbo` does not exist.",
        "The model gemini-2.5-flash-preview-native-audio-dialog is overloaded, try again at 12:30:45.",
        "temperature must be <= 2.0, e.g. 1.5; token is required",
        "模型不存在",
    ],
)
def test_what_stays(message: str) -> None:
    assert scrub(message) == message


def test_length_is_bounded_and_no_half_secret_is_left_at_the_cut() -> None:
    assert len(scrub("word " * 1000)) == 500
    assert scrub("x y " * 499 + "sk-" + "a" * 5000).count("sk") == 0


@pytest.mark.parametrize(
    "text", ["a", "a-", "a.", "*", "1:", "a1", "sk-", " ", "http://", "token:", "[", "0."]
)
def test_hostile_text_is_quick(text: str) -> None:
    start = time.perf_counter()
    scrub(text * (1_000_000 // len(text)))
    assert time.perf_counter() - start < 2


SECRET = "plain words-secret"


def a_failure(**fields):
    return AttemptFailed(EndReason.UPSTREAM_REJECTED, status=400, **fields)


def test_the_attempts_own_credential_goes_wherever_it_is_quoted():
    failure = a_failure(
        message=f"Key {SECRET} is wrong.", error_class=SECRET, code=SECRET, kind=SECRET, param=SECRET
    )
    scrub_failure(failure, (SECRET,))
    assert failure.message == "Key [redacted] is wrong."
    assert SECRET not in str(vars(failure))


@pytest.mark.parametrize("text", ["you said 'hello'", "a" * 65, "x\ny", "sk-abcdef123456", ""])
def test_what_is_no_word_is_no_class(text):
    failure = a_failure(error_class=text, code=text, kind=text)
    scrub_failure(failure, ())
    assert (failure.error_class, failure.code, failure.kind) == ("unnamed", None, None)


def test_words_stay():
    failure = a_failure(
        error_class="ConnectError", code="context_length_exceeded", kind="invalid_request_error"
    )
    scrub_failure(failure, (SECRET,))
    assert (failure.error_class, failure.code) == ("ConnectError", "context_length_exceeded")
    assert failure.kind == "invalid_request_error"


def test_a_placeholder_for_a_key_garbles_nothing():
    failure = a_failure(message="none of the models", error_class="none")
    scrub_failure(failure, ("none", ""))
    assert failure.message == "none of the models"
