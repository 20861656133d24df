"""A client's JSON body: strict, in bounded time."""

import contextlib
import time
from collections.abc import Callable

import pytest

from relay.core.dialects.json_body import MAX_DEPTH, count_objects, read_top_level
from relay.core.errors import Refusal

MB = 1024 * 1024


def nested(depth: int) -> bytes:
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b'"text"',
        b"null",
        b'{"a":1} x',
        b'{"a":1}{"a":2}',
        b'{"a":NaN}',
        b'{"a":[-Infinity]}',
        b'{"a":Infinity}',
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',  # half a surrogate pair as raw bytes
        b'{"a":"\\ud800"}',  # and escaped
        b'{"a":{"b":["\\ud800\\u0041"]}}',
        b'{"\\udc00":1}',
        b'{"a":01}',
        b'{"a":"\x01"}',
        b"{'a':1}",
        b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16"),
        nested(MAX_DEPTH + 1),
        nested(100_000),
        b"[" * 100_000,
    ],
)
def test_what_is_not_strict_json_is_refused(body):
    with pytest.raises(Refusal) as refused:
        read_top_level(body)
    assert refused.value.status == 400
    assert refused.value.kind == "invalid_request_error"
    assert len(refused.value.message) < 200


@pytest.mark.parametrize(
    "body",
    [
        nested(MAX_DEPTH),
        b'{"a":"' + b"[" * 100_000 + b'"}',  # brackets within text are no depth
        b'{"a":"\\"' + b"[{" * 1_000 + b'\\\\"}',
        b'{"a":["\\\\",' + b",".join([b'{"b":"]}\\""}'] * 500) + b"]}",
        b'{"a":[' + b",".join([b"[]"] * 1_000) + b"]}",
        '{"a":"中文 😀 \\ud83d\\ude00"}'.encode(),
    ],
)
def test_depth_counts_brackets_outside_text_only(body):
    assert list(read_top_level(body)) == ["a"]


def test_depth_is_found_wherever_it_is():
    deep = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    for before in (b"", b'"[[[",' * 400, b'"\\\\\\"]",' * 400):
        with pytest.raises(Refusal, match="nested deeper"):
            read_top_level(b'{"x":[' + before + deep + b',"]]]]"]}')


def test_a_repeated_member_has_one_meaning_and_values_keep_their_bytes():
    fields = read_top_level(b'{"model":"cheap","n": 1.50, "model":"dear"}')
    assert bytes(fields["model"]) == b'"dear"'
    assert bytes(fields["n"]) == b"1.50"


@pytest.mark.parametrize("raw", [b"null", b"1", b'"x"', b"{}", b"[1]", b'[{},"x"]', b"[null]"])
def test_a_list_that_is_counted_holds_objects(raw):
    fields = read_top_level(b'{"messages":' + raw + b"}")
    with pytest.raises(Refusal, match="'messages' must be a list of objects") as refused:
        count_objects(fields["messages"], "messages")
    assert refused.value.param == "messages"


def test_counted_lists_have_a_limit():
    fields = read_top_level(b'{"messages":[' + b",".join([b"{}"] * 100_001) + b"]}")
    with pytest.raises(Refusal, match="more than 100000"):
        count_objects(fields["messages"], "messages")


def repeated(part: bytes, *, before: bytes = b'{"a":[', after: bytes = b"]}") -> Callable[[], bytes]:
    return lambda: before + b",".join([part] * (60 * MB // (len(part) + 1))) + after


HOSTILE: dict[str, Callable[[], bytes]] = {
    "opened only": lambda: b"[" * (60 * MB),
    "deep": lambda: b'{"a":' + b"[" * (30 * MB) + b"]" * (30 * MB) + b"}",
    "objects": repeated(b"{}"),
    "messages": repeated(b"{}", before=b'{"messages":['),
    "numbers": repeated(b"0"),
    "empty texts": repeated(b'""'),
    "250 deep each": repeated(b"[" * 250 + b"]" * 250),
    "members": lambda: b"{" + b",".join(b'"%d":0' % number for number in range(5_000_000)) + b"}",
    "members below the limit": lambda: b"{" + b",".join(b'"%d":0' % n for n in range(499_000)) + b"}",
    "escaped quotes": lambda: b'{"a":"' + b'\\"' * (30 * MB) + b'"}',
    "backslashes": lambda: b'{"a":"' + b"\\\\" * (30 * MB) + b'"}',
    "quotes": lambda: b'"' * (60 * MB),
    "text never closed": lambda: b'{"a":"[' + b"{" * (60 * MB),
    "chinese": lambda: b'{"a":"' + "中".encode() * (20 * MB) + b'"}',
    "one number": lambda: b'{"a":' + b"1" * (60 * MB) + b"}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_of_60_mb_take_bounded_time(name):
    body = HOSTILE[name]()
    began = time.process_time()
    with contextlib.suppress(Refusal):  # refused or read: either way soon
        fields = read_top_level(body)
        if "messages" in fields:
            count_objects(fields["messages"], "messages")
    assert time.process_time() - began < 1.5  # measured: at most 0.5 s
