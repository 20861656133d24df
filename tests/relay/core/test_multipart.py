"""Multipart forms: what is read where it stands, and which forms no two readers would agree about."""

import contextlib
import time

import pytest

from relay.core.errors import Refusal
from relay.core.multipart import MAX_PARTS, MAX_TEXT_BYTES, is_form, read_form

TYPE = "multipart/form-data; boundary=XyZ"
WANTED = ("model", "stream")


def form(*parts: tuple[str, bytes], end: bytes = b"--XyZ--\r\n") -> bytes:
    return (
        b"".join(b"--XyZ\r\n" + head.encode() + b"\r\n\r\n" + value + b"\r\n" for head, value in parts) + end
    )


def named(name: str, value: bytes, more: str = "") -> tuple[str, bytes]:
    return f'Content-Disposition: form-data; name="{name}"{more}', value


FILE = named(
    "file", b"\x00\xff\r\n--Xy\r\n\r\n--\r\n", '; filename="a; name=model.wav"\r\nContent-Type: audio/wav'
)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_fields_are_read_where_they_stand(place):
    parts = [FILE, named("prompt", "größe".encode())]
    parts.insert(place, named("model", b"whisper-1"))
    body = form(*parts)
    field = read_form(body, TYPE, WANTED).fields["model"]
    assert field.text == "whisper-1"
    assert body[field.start : field.end] == b"whisper-1"


def test_only_what_is_wanted_is_read():
    assert read_form(form(FILE, named("prompt", b"x" * 100_000)), TYPE, WANTED).fields == {}
    assert read_form(b"--XyZ--\r\n", TYPE, WANTED).fields == {}


def test_texts_are_measured_and_files_counted():
    read = read_form(form(FILE, named("prompt", b"x" * 5_000), FILE, named("model", b"m")), TYPE, WANTED)
    assert (read.text_bytes, read.files) == (5_001, 2)


@pytest.mark.parametrize(
    "head",
    [
        "Content-Disposition: form-data; name=model",
        'content-disposition: Form-Data; NAME="model"',
        'Content-Disposition: form-data;\tname = "model"',
        'Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name="model"',
        'Content-Disposition: form-data; name="model"\r\nContent-Transfer-Encoding: 8bit',
    ],
)
def test_ways_to_write_the_name(head):
    assert read_form(form((head, b"m")), TYPE, WANTED).fields["model"].text == "m"


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ([named("model", b"cheap"), named("model", b"dear")], "stands twice"),
        ([named("model", b"m", '; filename="m"')], "plain text"),
        ([named("model", b"m", "; filename*=utf-8''m")], "plain text"),
        ([named("model", b"bQ==", "\r\nContent-Transfer-Encoding: base64")], "plain text"),
        ([named("model", b"m" * (MAX_TEXT_BYTES + 1))], "too long"),
        ([named("model", b"\xff")], "UTF-8"),
        ([named("other", b"m", '; name="model"')], "plain name"),
        ([named("other", b"m", "; name*=utf-8''model")], "plain name"),
        ([("Content-Disposition: form-data; name*=utf-8''model", b"m")], "plain name"),
        ([named("mo\\del", b"m")], "plain name"),
        ([("Content-Disposition: form-data", b"m")], "plain name"),
        ([named("a", b"m", '\r\nContent-Disposition: form-data; name="model"')], "Content-Disposition"),
        ([("Content-Type: text/plain", b"m")], "Content-Disposition"),
        ([("no header at all", b"m")], "framing"),
    ],
)
def test_what_readers_would_disagree_about_is_refused(parts, what):
    """An upstream that reads another model than we do would answer with one this caller may not use."""
    with pytest.raises(Refusal, match=what) as refused:
        read_form(form(*parts), TYPE, WANTED)
    assert (refused.value.status, refused.value.code) == (400, "invalid_form")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--XyZ",
        form(named("model", b"m"), end=b""),
        b"--abc--\r\n",
        form(FILE).replace(b"\r\n", b"\n"),
        b"{}",
    ],
)
def test_broken_framing_is_refused(body):
    with pytest.raises(Refusal, match="could not be read"):
        read_form(body, TYPE, WANTED)


@pytest.mark.parametrize(
    "content_type",
    ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=XyZ; boundary=abc",
     'multipart/form-data; boundary="' + "x" * 500 + '"', 'multipart/form-data; x="; boundary=XyZ"'],
)  # fmt: skip
def test_a_boundary_must_be_one(content_type):
    with pytest.raises(Refusal) as refused:
        read_form(form(named("model", b"m")), content_type, WANTED)
    assert refused.value.status == 400


def test_a_quoted_boundary():
    body = form(named("model", b"m"))
    assert (
        read_form(body, 'multipart/form-data; charset=utf-8; Boundary="XyZ"', WANTED).fields["model"].text
        == "m"
    )


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [(TYPE, True), ("Multipart/Form-Data;boundary=x", True), ("multipart/mixed; boundary=x", False), ("", False),
     ("application/json", False)],
)  # fmt: skip
def test_what_a_form_is(content_type, expected):
    assert is_form(content_type) is expected


@pytest.mark.parametrize(
    "filler",
    [
        b"\r\n--XyQ" * (1 << 20),
        b"\r\n--XyZ" * (1 << 20),
        b"\r\n--XyZ\r\n\r\n" * (1 << 19),
        b"\r" * (8 << 20),
        b"-" * (8 << 20),
    ],
)
def test_hostile_bodies_take_bounded_time(filler):
    body = form(named("file", filler, '; filename="f"'))
    began = time.perf_counter()
    with contextlib.suppress(Refusal):
        assert read_form(body, TYPE, WANTED).fields == {}
    assert time.perf_counter() - began < 1


def test_too_many_parts():
    with pytest.raises(Refusal, match=str(MAX_PARTS)):
        read_form(form(*[named("x", b"")] * (MAX_PARTS + 1)), TYPE, WANTED)
    assert read_form(form(*[named("x", b"")] * (MAX_PARTS - 1)), TYPE, WANTED).fields == {}
