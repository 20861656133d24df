"""Two requests that ask the same have one fingerprint; two that differ anywhere have two."""

import itertools

import pytest

from relay.core.fingerprint import fingerprint

SECRET = b"a secret of some length"
PICTURE = b"\x89PNG\r\n--b7x\r\n\r\n--b" + bytes(range(256))
JSON = "application/json"


def of(body=b"{}", *, method="POST", target="/v1/x?a=1", kind=JSON, secret=SECRET):
    return fingerprint(secret, method, target, body, kind)


def form(boundary="b7", *parts):
    pieces = [f"--{boundary}\r\n".encode() + head + b"\r\n\r\n" + data + b"\r\n" for head, data in parts]
    return b"".join(pieces) + f"--{boundary}--\r\n".encode()


def of_form(*parts, boundary="b7", kind=None, **asked):
    return of(form(boundary, *parts), kind=kind or f"multipart/form-data; boundary={boundary}", **asked)


def part(name, data=b"v", more=b""):
    return f'Content-Disposition: form-data; name="{name}"'.encode() + more, data


FILE = part("image", PICTURE, b'; filename="a.png"\r\nContent-Type: image/png')


def test_the_same_is_the_same_and_says_nothing():
    assert of(b'{"prompt":"x"}') == of(b'{"prompt":"x"}')
    assert len(bytes.fromhex(of())) == 32
    assert of(secret=b"another") != of()


def test_whatever_differs_shows():
    asked = [
        of(),
        of(b"{ }"),
        of(b""),
        of(method="PUT"),
        of(target="/v1/y?a=1"),
        of(target="/v1/x?a=2"),
        of(target="/v1/x?a=1{", body=b"}"),
        of_form(),
        of_form(part("a")),
    ]
    assert len(set(asked)) == len(asked)


def test_json_is_told_by_its_bytes_whatever_it_is_called():
    assert of(kind="application/json; charset=utf-8") == of() == of(kind="")


@pytest.mark.parametrize("boundary", ["other", "b", "b7b7", "-----------------------------123", "x" * 70])
def test_a_form_with_a_new_boundary_is_the_same(boundary):
    parts = [part("model", b"m"), FILE, part("n", b"1"), FILE]
    assert of_form(*parts, boundary=boundary) == of_form(*parts)
    assert of_form(*parts, boundary=boundary, kind=f'Multipart/Form-Data; boundary="{boundary}"') == of_form(
        *parts
    )


def test_forms_that_differ_anywhere_differ():
    forms = [
        of_form(part("a"), part("b")),
        of_form(part("b"), part("a")),
        of_form(part("a")),
        of_form(part("a"), part("a")),
        of_form(part("a", b"w"), part("b")),
        of_form(part("a", b""), part("b")),
        of_form(part("a", more=b"\r\nContent-Type: text/plain"), part("b")),
        of_form(part("a", b"v\r\n--b8\r\n"), part("b")),
        of_form(FILE),
        of_form((FILE[0], PICTURE + b"\0")),
        of_form((FILE[0], PICTURE[1:])),
        of_form((FILE[0].replace(b"a.png", b"b.png"), PICTURE)),
        of_form(),
    ]
    for one, other in itertools.combinations(forms, 2):
        assert one != other


def test_spelling_of_a_header_does_not_matter():
    spelled = (b'CONTENT-disposition:  form-data; name="a"  ', b"v")
    assert of_form(spelled) == of_form(part("a"))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"no form", "multipart/form-data; boundary=b7"),
        (form("b7", part("a"))[:-8], "multipart/form-data; boundary=b7"),
        (form("b7", part("a")), "multipart/form-data"),
        (form("b7", part("a")), "multipart/form-data; boundary=é"),
    ],
)
def test_what_is_no_form_is_told_by_its_bytes(body, kind):
    assert of(body, kind=kind) == of(body)
    assert of(body + b"x", kind=kind) != of(body, kind=kind)
