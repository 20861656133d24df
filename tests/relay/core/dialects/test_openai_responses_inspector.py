"""What a stream of the Responses API says, whatever way it is cut, and what of it the client gets."""

import json

import pytest

from relay.core.dialects.base import EventKind
from relay.core.usage import TokenUsage
from tests.relay.core.dialects.responses_samples import (
    CALL,
    COMPLETED,
    CREATED,
    DONE,
    ERROR,
    FAILED,
    HELLO,
    IN_PROGRESS,
    INCOMPLETE,
    MESSAGE,
    PICTURE,
    PREAMBLE,
    TEXT_STREAM,
    USAGE,
    WORLD,
    call_events,
    event,
    events_of,
    inspector,
    judged,
    response,
)

P, C, E, X, N = (
    EventKind.PREAMBLE, EventKind.CONTENT, EventKind.ERROR, EventKind.INVALID, EventKind.COMMENT,
)  # fmt: skip


def soft_errors(looking) -> list[str]:
    return [one.error_class for one in looking.facts.soft_errors]


def test_a_text_passes_byte_for_byte():
    looking, kinds, out = judged(*TEXT_STREAM)
    assert out == b"".join(TEXT_STREAM)
    assert kinds == [P, P, P, P, C, C, C, C]
    facts = looking.facts
    assert facts.terminal_seen
    assert facts.every_choice_finished
    assert facts.finish_reasons == {0: "completed"}
    assert facts.model == "gpt-5-2025-08-07"
    assert facts.usage == TokenUsage(input=36, cached_input=12, output=87, reasoning=64)
    assert facts.received.text == "Hällo world"
    assert facts.received.text == "Hällo world"
    assert soft_errors(looking) == []


def test_every_byte_split_tells_the_same():
    data = b"".join(
        [*PREAMBLE, b": keepalive\n\n", HELLO, *call_events('{"city":', '"Paris"}', index=1), DONE, COMPLETED]
    )
    whole, kinds, out = judged(data)
    for cut in range(1, len(data)):
        looking, cut_kinds, cut_out = judged(data, cuts=[cut])
        assert (cut_kinds, cut_out) == (kinds, out)
        assert looking.facts.usage == whole.facts.usage
    one_by_one, cut_kinds, cut_out = judged(data, cuts=range(1, len(data)))
    assert (cut_kinds, cut_out, one_by_one.facts.tool_call_count) == (kinds, out, 1)


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_line_ends(newline):
    data = b"".join(TEXT_STREAM).replace(b"\n", newline)
    looking, _, out = judged(data)
    assert out == data
    assert looking.facts.terminal_seen


def test_incomplete_is_an_end_with_its_reason_and_its_usage():
    """BerriAI/litellm#37710, #27186: it gave a 500, or lost the usage."""
    looking, kinds, out = judged(CREATED, HELLO, INCOMPLETE)
    assert kinds[-1] is C
    assert out.endswith(INCOMPLETE)
    assert looking.facts.finish_reasons == {0: "max_output_tokens"}
    assert looking.facts.terminal_seen
    assert looking.facts.usage.output == 87


def test_a_failed_response_is_an_error_and_its_usage_is_kept():
    failed = event(
        "response.failed",
        response=response(
            status="failed", usage=USAGE, error={"code": "server_error", "message": "it broke"}
        ),
    )
    looking, kinds, out = judged(CREATED, HELLO, failed)
    assert kinds[-1] is E
    assert out == CREATED + HELLO
    assert (looking.facts.error.code, looking.facts.error.message) == ("server_error", "it broke")
    assert not looking.facts.terminal_seen
    assert looking.facts.usage.output == 87


def test_a_failure_without_a_reason():
    looking, kinds, _ = judged(event("response.failed", response=response(status="failed")))
    assert kinds == [E]
    assert looking.facts.error.kind == "response_failed"


@pytest.mark.parametrize(
    ("frame", "code", "message"),
    [
        (ERROR, "rate_limit_exceeded", "slow down"),
        (event("error", named=False, code="c", message="as documented", param=None), "c", "as documented"),
        (
            event("error", error={"type": "t", "code": "c", "message": "as it is sent", "param": None}),
            "c",
            "as it is sent",
        ),
        (b'data: {"error":{"message":"as chat does","code":"c"}}\n\n', "c", "as chat does"),
        (b'data: {"object":"error","message":"vLLM","code":400}\n\n', "400", "vLLM"),
        (b"event: error\ndata: plain text\n\n", "", "plain text"),
        (
            event("response.in_progress", error={"message": "SDKs raise for this", "code": "c"}),
            "c",
            "SDKs raise for this",
        ),
    ],
)
def test_errors_in_whatever_shape(frame, code, message):
    looking, kinds, out = judged(CREATED, frame)
    assert kinds == [P, E]
    assert out == CREATED
    assert (looking.facts.error.code, looking.facts.error.message) == (code, message)


def test_nothing_follows_the_last_event():
    """Some servers end with `[DONE]` all the same; whether it comes in the same read must not matter."""
    looking, kinds, out = judged(HELLO, COMPLETED, b"data: [DONE]\n\n", b": bye\n\n", HELLO)
    assert out == HELLO + COMPLETED
    assert kinds == [C, C, N, N, N]
    assert looking.closing() == b""


def test_done_alone_is_no_end():
    looking, kinds, out = judged(HELLO, b"data: [DONE]\n\n")
    assert (kinds, out) == ([C, N], HELLO)
    assert not looking.facts.terminal_seen
    assert not looking.facts.every_choice_finished


def test_events_without_their_names_pass():
    frames = [frame.split(b"\n", 1)[1] for frame in TEXT_STREAM]
    looking, kinds, out = judged(*frames)
    assert out == b"".join(frames)
    assert kinds == [P, P, P, P, C, C, C, C]
    assert looking.facts.terminal_seen


def test_an_event_whose_type_is_in_its_name_alone():
    frame = b'event: response.completed\ndata: {"response":{"status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":2}}}\n\n'
    looking, kinds, out = judged(frame)
    assert (kinds, out) == ([C], frame)
    assert looking.facts.usage == TokenUsage(input=1, output=2)


@pytest.mark.parametrize(
    "kind", ["response.web_search_call.searching", "response.novel.delta", "vendor.thing"]
)
def test_unknown_events_pass(kind):
    frame = event(kind, anything={"nested": [1, None]})
    looking, kinds, out = judged(frame)
    assert (kinds, out) == ([C], frame)
    assert soft_errors(looking) == []


@pytest.mark.parametrize("kind", ["keepalive", "response.queued"])
def test_announcements_prove_nothing_more_than_that_the_upstream_lives(kind):
    assert judged(event(kind))[1] == [P]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (MESSAGE, P),
        (CALL, P),
        ({"type": "reasoning", "id": "rs"}, P),
        ({"type": "web_search_call", "id": "ws"}, C),
        (PICTURE, C),
    ],
)
def test_an_item_that_the_upstream_carries_out_is_content(item, expected):
    """Once an upstream's own tool runs, another attempt would run it again."""
    assert judged(event("response.output_item.added", output_index=0, item=item))[1] == [expected]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("web_search_call", True), ("code_interpreter_call", True), ("mcp_call", True), ("mcp_list_tools", True),
     ("image_generation_call", True), ("function_call", False), ("custom_tool_call", False), ("computer_call", False),
     ("local_shell_call", False), ("message", False), ("reasoning", False), ("compaction", False)],
)  # fmt: skip
def test_tools_that_the_upstream_runs_itself(kind, expected):
    looking, _, _ = judged(
        event("response.output_item.added", output_index=0, item={"type": kind, "id": "x"})
    )
    assert looking.facts.upstream_tool_started is expected


@pytest.mark.parametrize("frame", [b"data: {}\n\n", b'data: {"choices":[]}\n\n', b'data: {"delta":"x"}\n\n'])
def test_what_has_no_type_is_withheld(frame):
    looking, kinds, out = judged(HELLO, frame)
    assert (kinds, out) == ([C, N], HELLO)
    assert soft_errors(looking) == ["untyped_event"]


@pytest.mark.parametrize("data", [b"oops", b'{"type":"response.output_te', b"[1]", b"7"])
def test_what_is_no_event_is_withheld(data):
    looking, kinds, out = judged(HELLO, b"data: " + data + b"\n\n")
    assert (kinds, out) == ([C, X], HELLO)
    assert soft_errors(looking) == ["not_json"]


def test_what_the_python_sdk_stumbles_over_is_left_out():
    with_id = b"id: 7\nretry: 10\n" + HELLO
    _, _, out = judged(b"event: ping\n\n", b": hi\n\n", with_id, COMPLETED)
    assert out == b": hi\n\n" + HELLO + COMPLETED


def test_odd_types_take_the_loose_path():
    frame = event("response.output_text.delta", output_index=0.0, delta={"text": "x"})
    looking, kinds, out = judged(frame, event("response.output_text.delta", output_index="0", delta="y"))
    assert kinds == [P, C]
    assert out.startswith(frame)
    assert looking.facts.received.size == 1


def test_half_an_emoji_in_two_events():
    first, second = (
        b'data: {"type":"response.output_text.delta","delta":"\\%s"}\n\n' % half
        for half in (b"ud83d", b"ude00")
    )
    looking, kinds, out = judged(first, second)
    assert (kinds, out) == ([C, C], first + second)
    assert soft_errors(looking) == []


class TestToolCalls:
    @pytest.mark.parametrize("pieces", [(), ('{"city":"Paris"}',), ('{"ci', 'ty":', '"Paris"}')])
    def test_whole(self, pieces):
        looking, _, _ = judged(*call_events(*pieces), event("response.completed", response=response(CALL)))
        assert looking.facts.tool_call_count == 1
        assert soft_errors(looking) == []
        assert looking.facts.received.text == CALL["arguments"]

    @pytest.mark.parametrize(
        ("pieces", "done"),
        [
            (('{"city":"Par',), {"arguments": '{"city":"Par'}),
            (('{"city":"Oslo"}',), {}),
            (('{"city":"Par',), {}),
            ((), {"name": ""}),
            ((), {"call_id": None}),
        ],
    )
    def test_broken(self, pieces, done):
        item = {**CALL, **done}
        looking, _, _ = judged(
            *call_events(*pieces, **done), event("response.completed", response=response(item))
        )
        assert soft_errors(looking) == ["tool_call_invalid"]

    def test_cut_by_the_token_limit_is_told_by_the_item_itself(self):
        cut = {**CALL, "status": "incomplete", "arguments": '{"ci'}
        ended = event("response.incomplete", response=response(cut, status="incomplete"))
        looking, _, _ = judged(*call_events('{"ci', status="incomplete", arguments='{"ci'), ended)
        assert soft_errors(looking) == []

    def test_pieces_without_an_end(self):
        looking, _, _ = judged(*call_events('{"city"')[:-1], event("response.completed", response=response()))
        assert soft_errors(looking) == ["tool_call_invalid"]

    def test_only_in_the_last_event(self):
        looking, _, _ = judged(
            event("response.completed", response=response(CALL, {**CALL, "arguments": "{"}))
        )
        assert looking.facts.tool_call_count == 2
        assert soft_errors(looking) == ["tool_call_invalid"]

    def test_arguments_left_out_at_the_end_are_those_that_came(self):
        looking, _, _ = judged(*call_events('{"a":1}', arguments=None))
        assert soft_errors(looking) == []

    def test_pieces_that_come_again_after_the_end_break_nothing(self):
        *begun, ended = call_events('{"city":"Paris"}')
        looking, _, _ = judged(*begun, ended, begun[-1], event("response.completed", response=response(CALL)))
        assert soft_errors(looking) == []

    def test_a_custom_tools_text_need_not_be_json(self):
        custom = {"type": "custom_tool_call", "id": "ct", "call_id": "c", "name": "run", "input": "print(1)"}
        looking, _, _ = judged(
            event("response.output_item.added", output_index=0, item={**custom, "input": ""}),
            event("response.custom_tool_call_input.delta", output_index=0, delta="print(1)"),
            event("response.output_item.done", output_index=0, item=custom),
        )
        assert looking.facts.tool_call_count == 1
        assert soft_errors(looking) == []


class TestPictures:
    def test_each_counts_once_and_as_soon_as_it_is_there(self):
        other = {**PICTURE, "id": "ig_2"}
        done = [
            event("response.output_item.done", output_index=n, item=item)
            for n, item in enumerate([PICTURE, other])
        ]
        partial = event(
            "response.image_generation_call.partial_image", output_index=0, partial_image_b64="AAAA"
        )
        broken_off, _, _ = judged(partial, done[0])
        assert broken_off.facts.usage == TokenUsage(images=1)
        looking, _, _ = judged(partial, *done, event("response.completed", response=response(PICTURE, other)))
        assert looking.facts.usage == TokenUsage(input=36, cached_input=12, output=87, reasoning=64, images=2)

    @pytest.mark.parametrize("result", [None, ""])
    def test_a_call_that_drew_nothing(self, result):
        item = {**PICTURE, "result": result, "status": "failed"}
        looking, _, _ = judged(event("response.completed", response=response(item)))
        assert looking.facts.usage.images is None


@pytest.mark.parametrize(
    ("usage", "expected", "soft"),
    [
        # Grok (xAI) counts reasoning beside the output; its total gives that away.
        (
            {"input_tokens": 10, "output_tokens": 5, "total_tokens": 35, "output_tokens_details": {"reasoning_tokens": 20}},
            TokenUsage(input=10, output=25, reasoning=20), [],
        ),
        # OpenRouter's Responses beta: cache writes beside reads, and a cost.
        (
            {"input_tokens": 10, "output_tokens": 5, "cost": 0.01, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}},
            TokenUsage(input=10, cached_input=4, cache_write_5m=2, output=5), [],
        ),
        # A proxy in front of a chat backend that kept chat's names.
        ({"prompt_tokens": 3, "completion_tokens": 4}, TokenUsage(input=3, output=4), []),
        ({"input_tokens": 3, "output_tokens": 4, "input_tokens_details": None}, TokenUsage(input=3, output=4), []),
        ({"input_tokens": 3.0, "output_tokens": 4.0}, TokenUsage(input=3, output=4), []),
        ({"input_tokens": -3, "output_tokens": 4}, TokenUsage(output=4), ["usage_absurd"]),
        ({"input_tokens": 10**10, "output_tokens": 4}, TokenUsage(output=4), ["usage_absurd"]),
        (None, None, []),
        ({}, None, []),
        ([], None, []),
    ],
)  # fmt: skip
def test_usage_oddities(usage, expected, soft):
    looking, _, _ = judged(event("response.completed", response=response(MESSAGE, usage=usage)))
    assert looking.facts.usage == expected
    assert soft_errors(looking) == soft


def test_a_stream_of_the_last_event_alone_is_an_answer():
    looking, kinds, _ = judged(COMPLETED)
    assert kinds == [C]
    assert looking.facts.received.text == "Hällo world"


class TestPlainReads:
    """A read that is taken as plain text must tell the same as its events, each looked at."""

    @staticmethod
    def plain(*reads: bytes):
        looking = inspector()
        return looking, [looking.observe_plain(read) for read in reads]

    def test_text_passes_in_one_step(self):
        looking, seen = self.plain(HELLO, HELLO + WORLD * 3)
        assert seen == [(1, len(HELLO)), (4, len(HELLO + WORLD * 3))]
        by_events, _, _ = judged(HELLO, HELLO, *[WORLD] * 3)
        assert looking.facts.received.size == by_events.facts.received.size
        assert looking.facts.received.text == by_events.facts.received.text

    @pytest.mark.parametrize("place", [0, 1, 2])
    @pytest.mark.parametrize(
        "other",
        [
            CREATED,
            DONE,
            COMPLETED,
            FAILED,
            ERROR,
            b": hi\n\n",
            b"\n",
            b"id: 1\n",
            b"retry: 1\n\n",
            event("response.output_text.delta", named=False, delta="x"),
            event("response.output_text.delta", delta=""),
            event("response.output_text.delta", delta=None),
            event("response.output_text.delta", delta="x", error={"message": "no"}),
            HELLO.replace(b'"type": "response.output_text.delta"', b'"type": "response.completed"'),
            HELLO.replace(b", ", b",\r"),
            HELLO.replace(b"data: ", b"data:"),
            HELLO.replace(b"\n", b"\r\n"),
            b"event: response.output_text.delta\ndata: oops\n\n",
            b"event: response.output_text.delta\ndata: {}\ndata: {}\n\n",
        ],
    )
    def test_anything_else_is_left_to_be_looked_at(self, other, place):
        frames = [HELLO, WORLD]
        frames.insert(place, other)
        looking, [seen] = self.plain(b"".join(frames))
        assert seen == (0, 0)
        assert looking.facts.received.size == 0

    def test_half_an_event_and_what_follows_the_end(self):
        looking, seen = self.plain(HELLO[:-1], HELLO[:20])
        assert seen == [(0, 0)] * 2
        for one in events_of(COMPLETED):
            looking.observe(one, 0)
        assert looking.observe_plain(HELLO) == (0, 0)

    def test_a_stream_of_something_else_is_not_tried_for_ever(self):
        broken = b"event: response.output_text.delta\ndata: {oops}\n\n"
        looking, _ = self.plain(*[broken] * 4)
        assert looking.observe_plain(HELLO) == (0, 0)


def test_arguments_beyond_all_measure_go_unchecked_and_are_not_kept():
    piece = "x" * (1 << 20)
    looking, _, _ = judged(*call_events(*[piece] * 6, arguments="{}"))
    assert looking._items._chars == 0
    assert looking.facts.received.size == 6 << 20


def test_nothing_of_the_prompt_or_the_answer_is_in_the_facts_that_are_recorded():
    looking, _, _ = judged(*PREAMBLE, WORLD, b"data: world{\n\n", IN_PROGRESS, FAILED)
    recorded = json.dumps([[one.error_class, one.offset] for one in looking.facts.soft_errors])
    assert "world" not in recorded
