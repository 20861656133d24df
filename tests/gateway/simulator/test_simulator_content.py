"""What is in an answer: text, reasoning, choices, tool calls."""

import json

import pytest

from gateway.simulator import Simulator
from tests.gateway.simulator.talk import QUESTION, Heard, chat, hear, hear_chat

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "book",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "nights": {"type": "integer"},
                    "board": {"type": "string", "enum": ["half", "full"]},
                },
            },
        },
    }
]


def deltas(heard: Heard) -> list[dict]:
    return [choice["delta"] for chunk in heard.chunks for choice in chunk["choices"]]


def call_fragments(heard: Heard) -> list[dict]:
    return [call for delta in deltas(heard) for call in delta.get("tool_calls", [])]


async def test_echo_has_openais_fields(simulator: Simulator):
    heard = await hear_chat(simulator, "some-model")
    assert len({chunk["id"] for chunk in heard.chunks}) == 1
    for chunk in heard.chunks:
        assert chunk["id"].startswith("chatcmpl-")
        assert (chunk["object"], chunk["model"]) == ("chat.completion.chunk", "some-model")
        assert 1_700_000_000 < chunk["created"] < 2_500_000_000
    assert deltas(heard)[0]["role"] == "assistant"
    assert (heard.text, heard.finishes, heard.is_done) == (QUESTION, ["stop"], True)


@pytest.mark.parametrize("text", ["a  b\n c ", "  lead", "你好，world", "\n", ""])
async def test_echo_gives_the_text_back_exactly(simulator: Simulator, text: str):
    heard = await hear_chat(simulator, "echo", text=text)
    assert heard.text == text or (text == "" and heard.text.startswith("You said nothing"))


async def test_echo_obeys_max_tokens(simulator: Simulator):
    heard = await hear_chat(simulator, "echo", max_tokens=2)
    assert (heard.text, heard.finishes) == ("one two", ["length"])


async def test_reasoning_comes_before_the_text_and_is_counted(simulator: Simulator):
    heard = await hear_chat(simulator, "reasoning", stream_options={"include_usage": True})
    kinds = ["reasoning" if "reasoning_content" in d else "text" for d in deltas(heard)[1:-1]]
    assert kinds == sorted(kinds)
    assert kinds[0] == "reasoning"
    assert kinds.count("text") == 5
    assert heard.usages[-1]["completion_tokens_details"]["reasoning_tokens"] == kinds.count("reasoning")


@pytest.mark.parametrize(
    ("model", "n", "expected"), [("n-choices", None, 2), ("n-choices", 3, 3), ("echo", 3, 3)]
)
async def test_choices(simulator: Simulator, model: str, n: int | None, expected: int):
    more = {} if n is None else {"n": n}
    heard = await hear_chat(simulator, model, **more)
    indices = [c["index"] for chunk in heard.chunks for c in chunk["choices"]]
    assert indices[: expected * 2] == [*range(expected)] * 2
    assert len(heard.finishes) == expected
    whole = await hear_chat(simulator, model, stream=False, **more)
    assert [c["index"] for c in whole.json["choices"]] == [*range(expected)]


async def test_logprobs(simulator: Simulator):
    heard = await hear_chat(simulator, "logprobs")
    tokens = [
        entry["token"]
        for chunk in heard.chunks
        for choice in chunk["choices"]
        for entry in (choice["logprobs"] or {"content": []})["content"]
    ]
    assert "".join(tokens) == QUESTION


async def test_refusal_is_no_content(simulator: Simulator):
    heard = await hear_chat(simulator, "refusal")
    assert heard.text == ""
    assert "".join(d.get("refusal") or "" for d in deltas(heard)) == "I cannot echo that."
    whole = await hear_chat(simulator, "refusal", stream=False)
    assert whole.json["choices"][0]["message"]["content"] is None


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("echo", ("stop", "end_turn", "STOP", "response.completed")),
        ("length", ("length", "max_tokens", "MAX_TOKENS", "response.incomplete")),
        ("content-filter", ("content_filter", "refusal", "SAFETY", "response.incomplete")),
        ("tool-call", ("tool_calls", "tool_use", "STOP", "response.completed")),
    ],
)
async def test_finish_in_every_dialect(simulator: Simulator, model: str, expected: tuple[str, ...]):
    openai, anthropic, gemini, responses = expected
    assert (await hear_chat(simulator, model)).finishes == [openai]
    heard = await hear(simulator, "/v1/messages", chat(model, stream=False, max_tokens=9))
    assert heard.json["stop_reason"] == anthropic
    contents = {"contents": [{"parts": [{"text": QUESTION}]}]}
    heard = await hear(simulator, f"/v1beta/models/{model}:generateContent", contents)
    assert heard.json["candidates"][0]["finishReason"] == gemini
    heard = await hear(simulator, "/v1/responses", {"model": model, "input": QUESTION, "stream": True})
    assert heard.events[-1][0] == responses


async def test_finish_empty_stands_on_every_chunk_but_the_last(simulator: Simulator):
    heard = await hear_chat(simulator, "finish-empty")
    reasons = [c["finish_reason"] for chunk in heard.chunks for c in chunk["choices"]]
    assert reasons == [""] * (len(reasons) - 1) + ["stop"]


async def test_bare_deltas_have_no_empty_keys(simulator: Simulator):
    heard = await hear_chat(simulator, "bare-deltas")
    assert deltas(heard)[0] == {"role": "assistant"}
    assert deltas(heard)[-1] == {}
    assert heard.text == QUESTION


async def test_azure_preamble_has_no_choices_id_or_model(simulator: Simulator):
    first, second, *_ = (await hear_chat(simulator, "azure-preamble")).chunks
    assert (first["id"], first["model"], first["choices"]) == ("", "", [])
    assert "prompt_filter_results" in first
    assert second["choices"][0]["delta"]["role"] == "assistant"


async def test_tool_call_is_the_clients_tool_in_fragments_that_join_to_json(simulator: Simulator):
    heard = await hear_chat(simulator, "tool-call", tools=TOOLS)
    first, *rest = call_fragments(heard)
    assert (first["function"]["name"], first["function"]["arguments"]) == ("book", "")
    assert first["id"].startswith("call_")
    assert len(rest) >= 2
    arguments = json.loads("".join(call["function"]["arguments"] for call in rest))
    assert arguments == {"city": "Paris", "nights": 3, "board": "half"}
    assert (heard.text, heard.finishes) == ("", ["tool_calls"])


async def test_tool_call_without_tools_asks_for_the_weather(simulator: Simulator):
    whole = await hear_chat(simulator, "tool-call", stream=False)
    message = whole.json["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city":"Paris"}'}


async def test_tool_result_is_answered_with_text_so_that_agents_stop(simulator: Simulator):
    messages = [{"role": "user", "content": "go"}, {"role": "tool", "tool_call_id": "x", "content": "12"}]
    heard = await hear(
        simulator, "/v1/chat/completions", {"model": "tool-call", "stream": True, "messages": messages}
    )
    assert (heard.text, heard.finishes) == ("go", ["stop"])


async def test_text_then_tool_call(simulator: Simulator):
    heard = await hear_chat(simulator, "text-then-tool-call")
    assert heard.text == QUESTION
    assert call_fragments(heard)[0]["function"]["name"] == "get_weather"


@pytest.mark.parametrize(
    ("model", "indices"),
    [
        ("parallel-tool-calls-no-index", [None, None]),
        ("parallel-tool-calls-same-index", [0, 0]),
    ],
)
async def test_parallel_calls_that_only_ids_tell_apart(simulator: Simulator, model, indices):
    heard = await hear_chat(simulator, model)
    calls = call_fragments(heard)
    assert [call.get("index") for call in calls] == indices
    assert len({call["id"] for call in calls}) == 2
    assert [json.loads(call["function"]["arguments"])["city"] for call in calls] == ["Paris", "Oslo"]


async def test_parallel_calls_in_fragments_have_indices(simulator: Simulator):
    heard = await hear_chat(simulator, "parallel-tool-calls")
    assert {call["index"] for call in call_fragments(heard)} == {0, 1}


async def test_bad_tool_json_never_parses(simulator: Simulator):
    heard = await hear_chat(simulator, "bad-tool-json")
    arguments = "".join(call["function"]["arguments"] for call in call_fragments(heard))
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(arguments)
    assert heard.finishes == ["tool_calls"]


async def test_tool_call_stop_is_good_but_for_its_reason(simulator: Simulator):
    heard = await hear_chat(simulator, "tool-call-stop")
    assert json.loads("".join(call["function"]["arguments"] for call in call_fragments(heard)))
    assert heard.finishes == ["stop"]


async def test_tool_calls_empty_is_text(simulator: Simulator):
    heard = await hear_chat(simulator, "tool-calls-empty")
    assert [d["tool_calls"] for d in deltas(heard) if d.get("content")] == [[]] * 5
    assert (heard.text, heard.finishes) == (QUESTION, ["stop"])
