"""Text completions: chat's request and stream, another prompt and another answer."""

import json

import pytest

from relay.core.dialects import OPENAI_COMPLETIONS
from relay.core.dialects.base import AggregationFailed, EventKind
from relay.core.errors import Refusal
from relay.core.sse import DONE
from relay.core.usage import TokenUsage
from tests.relay.core.dialects.openai_chat_samples import events_of, frame

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
HEAD = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "gpt-3.5-turbo-instruct"}


def ask(**fields: object):
    return OPENAI_COMPLETIONS.parse_request(json.dumps({"model": "m", "prompt": "hi", **fields}).encode())


def chunk(
    text: str = "", finish: str | None = None, index: int = 0, logprobs: object = None, **members: object
):
    choice = {"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish}
    return {**HEAD, "choices": [choice], **members}


def whole(*choices: object, **members: object) -> dict[str, object]:
    return {**HEAD, "choices": list(choices), "usage": USAGE, **members}


def choice(text: str, finish: str = "stop", index: int = 0, logprobs: object = None) -> dict[str, object]:
    return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish}


@pytest.mark.parametrize(
    ("prompt", "count"),
    [("hi", 1), ("", 1), (["a", "b", "c"], 3), ([1, 2, 3], 1), ([[1, 2], [3]], 2), ([], 1)],
)
def test_prompts_are_counted(prompt, count):
    assert ask(prompt=prompt).message_count == count


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": ["x"] * 100_001}, "prompt"),
        ({"model": 7}, "model"),
        ({"n": 0}, "n"),
        ({"stream": 1}, "stream"),
    ],
)
def test_what_is_refused_names_its_field(fields, param):
    with pytest.raises(Refusal) as refused:
        ask(**fields)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_usage_is_asked_for_and_kept_from_a_client_that_did_not():
    asked = ask(stream=True)
    sent = OPENAI_COMPLETIONS.build_request(asked, model="m", stream=True, request_usage=True, overrides={})
    assert json.loads(sent)["stream_options"] == {"include_usage": True}
    inspector = OPENAI_COMPLETIONS.stream_inspector(asked)
    text = [frame(chunk("Hel")), frame(chunk("lo")), frame(chunk("", "length"))]
    usage = frame({**HEAD, "choices": [], "usage": USAGE})
    seen = [inspector.observe(one, 0) for one in events_of(*text, usage, DONE)]
    assert b"".join(out for _, out in seen) == b"".join([*text, DONE])
    assert [kind for kind, _ in seen[-2:]] == [EventKind.CONTENT, EventKind.TERMINAL]
    assert inspector.facts.usage == TokenUsage(input=7, output=3)
    assert inspector.facts.finish_reasons == {0: "length"}
    assert inspector.facts.received.size == 5


def test_each_prompt_of_a_list_has_choices_of_its_own():
    inspector = OPENAI_COMPLETIONS.stream_inspector(ask(stream=True, prompt=["a", "b"], n=2))
    for index in range(4):
        assert not inspector.facts.every_choice_finished
        for one in events_of(chunk("x", index=index), chunk("", "stop", index=index)):
            inspector.observe(one, 0)
    assert inspector.facts.every_choice_finished


def aggregated(*frames: object) -> dict[str, object]:
    aggregator = OPENAI_COMPLETIONS.aggregator(ask())
    for one in events_of(*frames):
        aggregator.add(one)
    return json.loads(aggregator.whole())


def test_a_stream_becomes_a_whole():
    first = {"tokens": ["Hel"], "token_logprobs": [-0.1], "top_logprobs": None, "text_offset": [0]}
    second = {"tokens": ["lo"], "token_logprobs": [-0.2], "top_logprobs": None, "text_offset": [3]}
    frames = [
        chunk("Hel", logprobs=first),
        chunk("x", index=1),
        chunk("lo", logprobs=second),
        chunk("", "stop"),
        chunk("", "length", 1),
    ]
    answer = aggregated(*frames, {**HEAD, "choices": [], "usage": USAGE}, DONE)
    logprobs = {
        "tokens": ["Hel", "lo"],
        "token_logprobs": [-0.1, -0.2],
        "top_logprobs": None,
        "text_offset": [0, 3],
    }
    assert answer == whole(choice("Hello", logprobs=logprobs), choice("x", "length", 1))


@pytest.mark.parametrize("frames", [[], [chunk("x")], [chunk("x", "stop"), chunk("y", index=1)]])
def test_an_unfinished_stream_becomes_nothing(frames):
    with pytest.raises(AggregationFailed, match="incomplete"):
        aggregated(*frames)


@pytest.mark.parametrize(
    "answer",
    [whole(choice("long " * 300 + "猫")), whole(choice("a"), choice("b", "length", 1)), whole(choice("")),
     whole(choice("a", logprobs={"tokens": ["a"], "token_logprobs": [-1.0], "text_offset": [0]}), system_fingerprint="fp")],
)  # fmt: skip
def test_a_whole_becomes_a_stream_and_back_again(answer):
    asked = ask(stream=True, stream_options={"include_usage": True})
    frames = list(OPENAI_COMPLETIONS.whole_to_events(json.dumps(answer).encode(), asked))
    assert frames[-1] == DONE
    assert aggregated(*frames) == answer
    unasked = list(OPENAI_COMPLETIONS.whole_to_events(json.dumps(answer).encode(), ask(stream=True)))
    assert unasked == [one for one in frames if b'"usage"' not in one]
