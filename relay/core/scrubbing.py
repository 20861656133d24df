"""Takes out of an upstream's message what the operator would not want a tenant to read.

URLs, hosts, addresses, credentials and account ids go; the sentence stays readable. It runs on hostile
text, so every pattern is linear or its input is short.
"""

import re
from collections.abc import Sequence

from relay.core.errors import AttemptFailed

MAX_MESSAGE_CHARACTERS = 500
_MAX_READ_CHARACTERS = 2000
_SECRET_MIN_CHARACTERS = 6
"""Shorter ones are placeholders ("none", "x"): taking them out would garble every sentence."""
_WORD = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)

_TOP_LEVEL = (
    "com|net|org|io|ai|dev|co|app|cloud|cn|eu|de|uk|us|jp|kr|ru|fr|nl|ch|hk|sg|tw|tech|xyz|site|top|run|sh"
    "|local|localhost|internal|intranet|lan|corp|home|svc|arpa|edu|gov|test|example|invalid"
)
_AFTER_ITS_NAME = (
    r"\b((?:(?:x-)?(?:goog-)?api[-_ ]?key|access[-_ ]?token|token|secret|password|authorization)"
    r"(?: provided)?)"
    r"[\"']?\s?[:=]\s?[\"']?(?=\S{0,200}\d)[^\s\"',;]{8,}"
)
_LONG_AND_MIXED = r"\b(?=[\w-]{0,200}\d)(?-i:(?=[\w-]{0,200}[A-Z])(?=[\w-]{0,200}[a-z]))[\w-]{40,}"
_STEPS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.ASCII), replacement)
    for pattern, replacement in (
        (r"[\x00-\x1f\x7f]+", " "),
        (r"\b[a-z][a-z0-9+.-]{0,15}://[^\s\"'<>]+", "[url]"),
        (r"\b(bearer|basic)\s+[^\s\"',;]{6,}", r"\1 [redacted]"),
        (_AFTER_ITS_NAME, r"\1: [redacted]"),
        (r"\b(?:sk|pk|rk|ak)-[\w*.-]{4,}", "[redacted]"),
        (r"\b(?:gsk|hf|r8|nvapi|xai|pplx|ghp|AKIA|AIza|eyJ)[-_]?[\w.-]{12,}", "[redacted]"),
        (r"[^\s\"',;]{0,64}\*{3,}[^\s\"',;]{0,64}", "[redacted]"),
        (r"\b(?:org|proj|acct)[-_](?=\w{0,64}\d)\w{8,}", "[account]"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "[id]"),
        (r"\b(?=\w{0,200}\d)\w{24,}", "[redacted]"),
        (_LONG_AND_MIXED, "[redacted]"),
        (r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?\b", "[host]"),
        (r"\[?(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{1,4}(?![\w:])\]?(?::\d{1,5})?", "[host]"),
        (r"\b(?:[a-z0-9_-]{1,63}\.){1,10}[a-z][a-z0-9-]{0,30}:\d{2,5}\b", "[host]"),
        (rf"\b(?:[a-z0-9_-]{{1,63}}\.){{1,10}}(?:{_TOP_LEVEL})\b(?::\d{{1,5}})?", "[host]"),
        (r"\blocalhost\b(?::\d{1,5})?", "[host]"),
    )
)


def scrub_failure(failure: AttemptFailed, secrets: Sequence[str]) -> None:
    """Cleans, in place, all that an upstream may have written into a failure.

    secrets: what the attempt itself knows, its credential above all: an upstream may quote it, and no
    pattern recognises every credential.
    """
    failure.message = scrub(_without(failure.message, secrets))
    failure.error_class = word(_without(failure.error_class, secrets)) or "unnamed"
    failure.code = word(_without(failure.code or "", secrets))
    failure.kind = word(_without(failure.kind or "", secrets))
    failure.param = _without(failure.param or "", secrets) or None


def word(text: str | None) -> str | None:
    """A machine-readable word of the upstream's, unless it is anything else."""
    return text if text and _WORD.fullmatch(text) and scrub(text) == text else None


def _without(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        if len(secret) >= _SECRET_MIN_CHARACTERS:
            text = text.replace(secret, "[redacted]")
    return text


def scrub(message: str) -> str:
    """The message without URLs, hosts, addresses, keys and account ids, at most 500 characters."""
    if not message:
        return ""
    text = message[:_MAX_READ_CHARACTERS]
    if len(message) > _MAX_READ_CHARACTERS:
        # The last word may be half a secret, which no pattern would know.
        text = text.rpartition(" ")[0]
    for pattern, replacement in _STEPS:
        text = pattern.sub(replacement, text)
    text = text.strip()
    if len(text) > MAX_MESSAGE_CHARACTERS:
        return text[: MAX_MESSAGE_CHARACTERS - 1] + "…"
    return text
