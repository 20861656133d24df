"""Field validators of configuration rows: lists and maps kept as JSON, names, URLs. No database.

Forms and services both reach them through `full_clean`, so bad input is told at its field.
"""

import ipaddress
import math
import re
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import orjson
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from relay.core.url_guard import UnsafeUrl, check_base_url

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
# PostgreSQL refuses it in JSON, however deep. An even number of backslashes before it: they are escaped.
_NUL_IN_JSON = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\x80-\xff\t]{0,4000}")
# RFC 9110 section 7.6.1 and the framing of a message: they belong to each connection.
_CONNECTION_HEADERS = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
    | {"host", "content-length", "content-encoding", "expect"}
)
# Credentials are upstream keys: sealed. Here they would lie in the open.
_CREDENTIAL_HEADERS = frozenset(
    ["authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "set-cookie"]
)
# The stream runtime decides these; an override would make it misread the answer.
_RUNTIME_PARAMETERS = frozenset({"stream", "stream_options"})
LIST_MAX = 2000
TEXT_MAX = 200


def _words(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValidationError(_("A list of texts is expected."), code="type")
    if len(value) > LIST_MAX:
        raise ValidationError(_("At most %(most)d entries."), code="size", params={"most": LIST_MAX})
    if len(set(value)) != len(value):
        raise ValidationError(_("An entry is there twice."), code="duplicate")
    return value


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ValidationError(_("A JSON object is expected."), code="type")
    return value


def _is_visible(text: str) -> bool:
    return bool(text) and text == text.strip() and text.isprintable() and len(text) <= TEXT_MAX


def _each(value: object, is_good: Callable[[str], bool], message: str) -> None:
    for word in _words(value):
        if not is_good(word):
            # Not "invalid": for that code a field puts its own message in the place of ours.
            raise ValidationError(message, code="bad_entry", params={"word": word[:TEXT_MAX]})


def validate_finite(value: float) -> None:
    """NaN passes every comparison that range validators make."""
    if not math.isfinite(value):
        raise ValidationError(_("A finite number is expected."), code="invalid")


def validate_visible_name(value: str) -> None:
    if not _is_visible(value):
        raise ValidationError(_("Printable text without spaces at its ends is expected."), code="invalid")


def validate_not_empty(value: Sequence[object]) -> None:
    if not value:
        raise ValidationError(_("At least one entry is needed."), code="required")


def is_model_pattern(text: str) -> bool:
    """A model name, or a pattern whose only wildcard is `*`; no spaces."""
    return _is_visible(text) and not any(letter.isspace() for letter in text) and "**" not in text


def validate_model_patterns(value: object) -> None:
    _each(value, is_model_pattern, _("“%(word)s” is no model name or pattern with *."))


def validate_model_pattern(value: object) -> None:
    validate_model_patterns([value])


def validate_model_mapping(value: object) -> None:
    for asked, sent in _mapping(value).items():
        if not is_model_pattern(asked) or "*" in asked:
            raise ValidationError(_("“%(word)s” is no model name."), params={"word": asked[:TEXT_MAX]})
        if not isinstance(sent, str) or not is_model_pattern(sent) or "*" in sent:
            raise ValidationError(_("“%(word)s” maps to no model name."), params={"word": asked[:TEXT_MAX]})


def _is_slug(text: str) -> bool:
    return _SLUG.fullmatch(text) is not None


def validate_groups(value: object) -> None:
    _each(
        value,
        lambda word: _SLUG.fullmatch(word) is not None,
        _("“%(word)s” is no group: letters, digits, - _."),
    )
    validate_not_empty(_words(value))


def validate_tags(value: object) -> None:
    _each(value, _is_visible, _("“%(word)s” is no tag: printable text without spaces at its ends."))


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def validate_networks(value: object) -> None:
    _each(value, _is_network, _("“%(word)s” is no address or network; host bits must be zero."))


def validate_header_overrides(value: object) -> None:
    for name, text in _mapping(value).items():
        shown = {"word": name[:TEXT_MAX]}
        if not _HEADER_NAME.fullmatch(name):
            raise ValidationError(_("“%(word)s” is no header name."), params=shown)
        if name.lower() in _CONNECTION_HEADERS:
            raise ValidationError(_("“%(word)s” belongs to the connection and cannot be set."), params=shown)
        if name.lower() in _CREDENTIAL_HEADERS:
            raise ValidationError(_("“%(word)s” is a credential: add it as an upstream key."), params=shown)
        if not isinstance(text, str) or not _HEADER_VALUE.fullmatch(text) or text != text.strip():
            raise ValidationError(_("The value of “%(word)s” is no header value."), params=shown)


def validate_parameter_overrides(value: object) -> None:
    overrides = _mapping(value)
    for name in overrides:
        if name in _RUNTIME_PARAMETERS:
            raise ValidationError(_("“%(word)s” is set by the stream policy."), params={"word": name})
    try:
        text = orjson.dumps(overrides)
    except (TypeError, ValueError) as error:
        raise ValidationError(_("A JSON object is expected."), code="type") from error
    if _NUL_IN_JSON.search(text):
        raise ValidationError(_("A NUL character cannot be kept."), code="nul")


def validate_base_url(value: str) -> None:
    try:
        check_base_url(value, settings.UPSTREAM_ALLOWED_PRIVATE_NETS)
    except UnsafeUrl as error:
        raise ValidationError(str(error), code="unsafe") from error


def validate_proxy_url(value: str) -> None:
    try:
        parts = urlsplit(value)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
        parts = urlsplit("")
    if not is_good or parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise ValidationError(_("http://host:port is expected."), code="invalid")
    if "@" in parts.netloc:
        # It would be stored and shown in the open.
        raise ValidationError(_("A proxy URL may not hold a password."), code="credential")
