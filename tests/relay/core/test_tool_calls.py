"""Assembling tool calls: numbering, validity, bounded memory."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.core.tool_calls import MAX_ARGUMENT_CHARS, MAX_CALLS, ToolCallAssembler, are_whole_arguments


def add(calls: ToolCallAssembler, index=0, call_id=None, name=None, arguments=None, *, choice=0) -> int:
    return calls.add(choice, index=index, call_id=call_id, name=name, arguments=arguments)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True),  # vercel/ai#6687, simonw/llm#1164: a tool without parameters
        ("  ", True),
        ("{}", True),
        ('{"a":1}', True),
        ('{"a":"\\ud83d"}', True),
        ("null", True),
        ("{", False),
        ('{"a":1}{', False),
        ("{'a':1}", False),
        ('{"a":NaN}', False),
        ("[" * 100_000, False),
    ],
)
def test_whole_arguments(text, whole):
    assert are_whole_arguments(text) is whole


def test_choices_are_apart():
    calls = ToolCallAssembler()
    add(calls, 0, "a", "f", "{}", choice=0)
    add(calls, 0, "b", "f", "{", choice=1)
    assert (calls.check(0), calls.check(1), calls.check(2)) == (True, False, True)
    assert (calls.has_calls(0), calls.has_calls(2)) == (True, False)
    assert calls.check_all() is False
    assert calls.count == 2


def test_an_id_that_arrives_late_belongs_to_its_call():
    calls = ToolCallAssembler()
    assert add(calls, 0, None, "f", '{"a"') == 0
    assert add(calls, 0, "a", None, ":1}") == 0
    assert calls.check(0)


def test_the_check_stands_once_made_and_drops_the_text():
    calls = ToolCallAssembler()
    add(calls, 0, "a", "f", "{}")
    assert calls.check(0)
    add(calls, 0, None, None, "garbage")
    assert calls.check(0)


def test_arguments_beyond_the_cap_are_dropped_and_go_unchecked():
    calls = ToolCallAssembler()
    for _ in range(MAX_ARGUMENT_CHARS // 100_000 + 2):
        add(calls, 0, "a", "f", "x" * 100_000)
    add(calls, 1, "b", "g", "{")  # others are still checked
    assert not calls.check(0)
    only_large = ToolCallAssembler()
    add(only_large, 0, "a", "f", "x" * (MAX_ARGUMENT_CHARS + 1))
    assert only_large.check(0)


def test_a_flood_of_calls_is_bounded():
    calls = ToolCallAssembler()
    for number in range(3 * MAX_CALLS):
        add(calls, number, f"id{number}", "f", "{}")
        add(calls, 0, f"id{number}", "f", "{}", choice=number)
    assert calls.count == MAX_CALLS


fragments = st.tuples(
    st.integers(0, 2),
    st.none() | st.integers(-2, 4),
    st.none() | st.sampled_from(["", "a", "b", "c"]),
    st.none() | st.sampled_from(["", "f", "g"]),
    st.none() | st.sampled_from(["", "{}", "{", "}", "x"]),
)


@settings(deadline=None)
@given(st.lists(fragments, max_size=30))
def test_any_fragments_give_numbers_and_an_answer(sent):
    calls = ToolCallAssembler()
    numbers = [calls.add(c, index=i, call_id=d, name=n, arguments=a) for c, i, d, n, a in sent]
    assert all(number >= 0 for number in numbers)
    assert calls.count == len({(c, number) for (c, *_), number in zip(sent, numbers, strict=True)})
    calls.check_all()


made = st.lists(
    st.tuples(st.sampled_from("fgh"), st.dictionaries(st.text(max_size=4), st.integers(), max_size=2)),
    min_size=1,
    max_size=4,
)


@settings(deadline=None)
@given(made, st.sampled_from(["good", "shared", "absent"]), st.integers(1, 4), st.booleans())
def test_calls_with_ids_come_out_whole_however_they_are_numbered(wanted, numbering, size, repeats_id):
    calls = ToolCallAssembler()
    joined: dict[int, str] = {}
    for position, (name, arguments) in enumerate(wanted):
        text = json.dumps(arguments)
        index = {"good": position, "shared": 0, "absent": None}[numbering]
        for start in range(0, len(text), size):
            first = start == 0
            number = add(
                calls,
                index,
                f"id{position}" if first or repeats_id else None,
                name if first else None,
                text[start : start + size],
            )
            joined[number] = joined.get(number, "") + text[start : start + size]
    assert [json.loads(joined[number]) for number in sorted(joined)] == [arguments for _, arguments in wanted]
    assert sorted(joined) == list(range(len(wanted)))
    assert calls.check(0)
