"""Whole responses: read, made of a stream, and made into one; nothing gets lost on the way."""

import json

import pytest

from relay.core.dialects import OPENAI_RESPONSES
from relay.core.dialects.base import AggregationFailed
from relay.core.errors import Refusal
from relay.core.usage import TokenUsage
from tests.relay.core.dialects.responses_samples import (
    CALL,
    COMPLETED,
    CREATED,
    ERROR,
    HELLO,
    INCOMPLETE,
    MESSAGE,
    PICTURE,
    REASONING,
    TEXT_STREAM,
    USAGE,
    call_events,
    event,
    events_of,
    inspector,
    response,
)

ASK = OPENAI_RESPONSES.parse_request(b'{"model":"m","input":"hi"}')


def inspected(value: object):
    return OPENAI_RESPONSES.inspect_whole(value if isinstance(value, bytes) else json.dumps(value).encode())


def aggregated(*frames: bytes) -> dict[str, object]:
    aggregator = OPENAI_RESPONSES.aggregator(ASK)
    for one in events_of(b"".join(frames)):
        aggregator.add(one)
    return json.loads(aggregator.whole())


def exploded(value: object) -> list[bytes]:
    return list(OPENAI_RESPONSES.whole_to_events(json.dumps(value).encode(), ASK))


def payloads(frames: list[bytes]) -> list[dict[str, object]]:
    return [json.loads(one.data) for one in events_of(b"".join(frames))]


def test_a_whole_answer_is_read():
    answer = inspected(response(REASONING, MESSAGE, CALL))
    assert answer.usage == TokenUsage(input=36, cached_input=12, output=87, reasoning=64)
    assert answer.finish_reasons == ("completed",)
    assert answer.model == "gpt-5-2025-08-07"
    assert (answer.error, answer.soft_errors) == (None, ())


def test_incomplete_is_a_success_with_its_reason():
    answer = inspected(
        response(MESSAGE, status="incomplete", incomplete_details={"reason": "content_filter"})
    )
    assert (answer.finish_reasons, answer.error) == (("content_filter",), None)


def test_pictures_count():
    assert inspected(response(PICTURE, PICTURE, {**PICTURE, "result": None})).usage.images == 2
    assert inspected(response(PICTURE, usage=None)).usage == TokenUsage(images=1)


def test_a_broken_tool_call_is_a_soft_error():
    assert inspected(response({**CALL, "arguments": "{"})).soft_errors == ("tool_call_invalid",)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (response(status="failed", error={"code": "server_error", "message": "broke"}), "server_error"),
        (response(status="cancelled"), ""),
        ({"error": {"message": "no", "code": "c"}}, "c"),
        ({"object": "error", "message": "vLLM", "code": 400}, "400"),
        ({"detail": "FastAPI"}, ""),
    ],
)
def test_errors_inside_a_200(value, code):
    answer = inspected(value)
    assert answer.error is not None
    assert answer.error.code == code


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"<html>",
        b"[]",
        b"7",
        {},
        {"choices": []},
        {"output": "x"},
        response(status="in_progress"),
        response(status="queued"),
    ],
)
def test_what_is_no_finished_response(value):
    with pytest.raises(ValueError, match=r".*"):
        inspected(value)


def test_halves_of_surrogate_pairs():
    body = json.dumps(response(MESSAGE)).replace("world", "\\ud83d").encode()
    assert inspected(body).usage.output == 87


class TestAggregation:
    def test_the_last_event_is_the_answer(self):
        assert aggregated(*TEXT_STREAM) == response(MESSAGE)

    def test_an_answer_without_its_items_gets_those_that_came_one_by_one(self):
        """ChatGPT's own backend leaves `output` empty in `response.completed`."""
        items = [
            event("response.output_item.done", output_index=1, item=CALL),
            event("response.output_item.done", output_index=0, item=MESSAGE),
        ]
        assert aggregated(CREATED, *items, event("response.completed", response=response())) == response(
            MESSAGE, CALL
        )

    def test_items_keep_their_order_where_their_number_is_a_float(self):
        items = [
            event("response.output_item.done", output_index=1.0, item=CALL),
            event("response.output_item.done", output_index=0.0, item=MESSAGE),
        ]
        ended = event("response.completed", response=response())
        assert aggregated(*items, ended)["output"] == [MESSAGE, CALL]

    def test_an_incomplete_answer_is_one(self):
        assert aggregated(CREATED, HELLO, INCOMPLETE)["status"] == "incomplete"

    def test_a_status_left_out(self):
        bare = {name: value for name, value in response(MESSAGE).items() if name != "status"}
        assert aggregated(event("response.completed", response=bare))["status"] == "completed"

    @pytest.mark.parametrize(
        "frames", [[], [CREATED], TEXT_STREAM[:-1], [event("response.completed")], [ERROR]]
    )
    def test_a_stream_without_its_end_is_no_answer(self, frames):
        with pytest.raises(AggregationFailed, match="incomplete"):
            aggregated(*frames)

    @pytest.mark.parametrize("broken", [{"arguments": '{"ci'}, {"name": ""}, {"call_id": None}])
    def test_a_broken_tool_call_is_no_answer(self, broken):
        ended = event("response.completed", response=response(MESSAGE, {**CALL, **broken}))
        with pytest.raises(AggregationFailed, match="tool_call_invalid"):
            aggregated(*call_events('{"ci'), ended)

    def test_a_call_cut_by_the_token_limit_is_what_the_client_asked_for(self):
        cut = {**CALL, "status": "incomplete", "arguments": '{"ci'}
        ended = event("response.incomplete", response=response(cut, status="incomplete"))
        assert aggregated(ended)["output"] == [cut]


ANNOTATION = {
    "type": "url_citation",
    "start_index": 0,
    "end_index": 5,
    "url": "https://example.org",
    "title": "t",
}
WITH_EVERYTHING = response(
    {**REASONING, "content": [{"type": "reasoning_text", "text": "raw thoughts"}]},
    {
        **MESSAGE,
        "content": [
            {"type": "output_text", "text": "long " * 300 + "größe 猫", "annotations": [ANNOTATION], "logprobs": [{"token": "a", "logprob": -0.5}]},
            {"type": "refusal", "refusal": "I would rather not."},
        ],
    },
    CALL,
    {**CALL, "id": "fc_2", "call_id": "call_2", "arguments": ""},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_3", "name": "run", "input": "print(1)"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
    PICTURE,
    {"type": "novel_item", "anything": [1, 1.5, None]},
    temperature=1.0,
    metadata={"k": "v"},
)  # fmt: skip


@pytest.mark.parametrize(
    "whole",
    [
        WITH_EVERYTHING,
        response(),
        response(MESSAGE, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        response({**MESSAGE, "content": []}),
    ],
    ids=["everything", "nothing", "incomplete", "no content"],
)
class TestExplosion:
    def test_and_back_again(self, whole):
        assert aggregated(*exploded(whole)) == whole

    def test_the_inspector_takes_it_for_a_good_stream(self, whole):
        looking = inspector()
        frames = exploded(whole)
        seen = [looking.observe(one, 0) for one in events_of(b"".join(frames))]
        assert b"".join(out for _, out in seen) == b"".join(frames)
        assert looking.facts.terminal_seen
        assert looking.facts.soft_errors == []
        expected = inspected(whole)
        assert looking.facts.usage == expected.usage
        assert tuple(looking.facts.finish_reasons.values()) == expected.finish_reasons

    def test_what_sdks_demand_of_every_event(self, whole):
        events = payloads(exploded(whole))
        assert [one["sequence_number"] for one in events] == list(range(len(events)))
        assert events[0]["type"] == "response.created"
        opening = events[0]["response"]
        assert (opening["status"], opening["output"], opening["usage"]) == ("in_progress", [], None)
        assert (opening["created_at"], opening["model"]) == (whole["created_at"], whole["model"])
        for one in events[2:-1]:
            assert isinstance(one["output_index"], int)
        assert events[-1] == {**events[-1], "response": whole, "type": f"response.{whole['status']}"}


def test_deltas_join_to_what_is_done():
    events = payloads(exploded(WITH_EVERYTHING))
    for kind, field in [
        ("output_text", "text"),
        ("refusal", "refusal"),
        ("reasoning_text", "text"),
        ("reasoning_summary_text", "text"),
        ("custom_tool_call_input", "input"),
    ]:
        joined = "".join(one["delta"] for one in events if one["type"] == f"response.{kind}.delta")
        [done] = [one for one in events if one["type"] == f"response.{kind}.done"]
        assert joined == done[field] != ""
    assert sum(one["type"] == "response.output_text.delta" for one in events) > 1
    [annotated] = [one for one in events if one["type"] == "response.output_text.annotation.added"]
    assert annotated["annotation"] == ANNOTATION


def test_a_whole_without_what_sdks_demand_gets_it():
    events = payloads(
        exploded({"output": [{"type": "message", "content": [{"type": "output_text", "text": "x"}]}]})
    )
    assert (events[0]["response"]["created_at"], events[0]["response"]["model"]) == (0, "")
    assert {one["item_id"] for one in events if "item_id" in one} == {"item_0"}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"output":7}'])
def test_what_is_no_response_explodes_at_once(body):
    with pytest.raises(ValueError, match=r".*"):
        OPENAI_RESPONSES.whole_to_events(body, ASK)


def test_errors_in_band_are_there_in_both_shapes():
    refusal = Refusal(502, "It broke.", kind="api_error", code="upstream_error", param=None)
    frame = OPENAI_RESPONSES.error_event(refusal, "req-1")
    [one] = events_of(frame)
    data = json.loads(one.data)
    assert one.event == data["type"] == "error"
    assert (data["code"], data["message"], data["param"], data["sequence_number"]) == (
        "upstream_error",
        "It broke.",
        None,
        0,
    )
    assert data["error"] == json.loads(OPENAI_RESPONSES.error_body(refusal, "req-1"))["error"]
    assert data["error"]["request_id"] == "req-1"
    assert (
        json.loads(events_of(OPENAI_RESPONSES.error_event(Refusal(500, "x", kind="api_error"), "r"))[0].data)[
            "code"
        ]
        == "api_error"
    )


def test_usage_of_both_ways_is_the_same():
    assert inspected(response(MESSAGE)).usage == inspected(aggregated(*TEXT_STREAM[:-1], COMPLETED)).usage
    assert USAGE["output_tokens"] == 87
