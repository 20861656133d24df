"""`tool_call_guard`: a client never gets a tool call that is not whole and valid, and text does not wait."""

from dataclasses import replace

import httpx
import orjson
import pytest

from relay.core.end_reasons import EndReason
from tests.fakes.runtime import DONE, HELLO, ROLE, STOP, USAGE, WORLD, a_channel, settle, with_policy

JSON = {"content-type": "application/json"}
GUARDED = with_policy(a_channel(number=1), tool_call_guard=True)
OTHER = with_policy(a_channel(number=2), tool_call_guard=True)


def frame(delta: dict, finish: str | None = None, choice: int = 0) -> bytes:
    chunk = {"id": "c", "model": "m", "choices": [{"index": choice, "delta": delta, "finish_reason": finish}]}
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def call(arguments: str, name: str | None = "look", index: int = 0) -> bytes:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    first = {} if name is None else {"id": f"call_{index}", "type": "function"}
    return frame({"tool_calls": [{"index": index, **first, "function": function}]})


BEGUN = call('{"a":')
REST = call("1}", name=None)
BROKEN = call("1", name=None)
FINISH = frame({}, "tool_calls")


def a_whole(arguments: str) -> bytes:
    function = {"name": "look", "arguments": arguments}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return orjson.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]})


async def answer_whole(runtime, number: int, arguments: str) -> None:
    exchange = await runtime.sent(number)
    assert orjson.loads(exchange.request.content)["stream"] is False
    body = exchange.headers(headers=JSON)
    body.send(a_whole(arguments))
    body.end()


async def test_text_is_live_and_a_call_comes_whole(runtime):
    client = runtime.ask(GUARDED)
    body = await runtime.streaming(HELLO)
    assert bytes(client.received) == HELLO
    body.send(BEGUN)
    await settle()
    assert bytes(client.received) == HELLO
    body.send(REST)
    await runtime.clock.advance(3)
    assert bytes(client.received) == HELLO
    body.send(FINISH)
    await settle()
    assert bytes(client.received) == HELLO + BEGUN + REST + FINISH
    body.send(USAGE, DONE)
    body.end()
    await client.end()
    assert bytes(client.received) == HELLO + BEGUN + REST + FINISH + DONE
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_any_split_gives_the_same_bytes(runtime, size):
    client = runtime.ask(GUARDED)
    body = await runtime.streaming()
    sent = ROLE + HELLO + WORLD + BEGUN + REST + FINISH + DONE
    for at in range(0, len(sent), size):
        body.send(sent[at : at + size])
    body.end()
    await client.end()
    assert bytes(client.received) == sent


async def test_plain_text_passes_as_without_the_guard(runtime):
    client = runtime.ask(GUARDED)
    body = await runtime.streaming(ROLE, HELLO, WORLD, STOP, DONE)
    body.end()
    await client.end()
    assert bytes(client.received) == ROLE + HELLO + WORLD + STOP + DONE


async def test_a_broken_call_is_asked_for_once_without_streaming(runtime):
    client = runtime.ask(GUARDED, OTHER)
    (await runtime.streaming(ROLE, BEGUN, BROKEN, FINISH, DONE)).end()
    await answer_whole(runtime, 1, '{"a":1}')
    await client.end()
    assert b'{\\"a\\":1}' in client.received
    assert BEGUN not in client.received
    assert client.received.endswith(DONE)
    first, second = runtime.recorder.one.attempts
    assert (first.end_reason, first.error_class) == (EndReason.UPSTREAM_PROTOCOL_ERROR, "tool_call_invalid")
    assert (second.channel_id, second.end_reason, second.stream_sent) == (1, EndReason.COMPLETED, False)


async def test_a_preamble_is_not_released_while_a_call_is_held(runtime):
    """Else nothing could be asked again."""
    client = runtime.ask(GUARDED)
    body = await runtime.streaming(ROLE, BEGUN)
    await runtime.clock.advance(30)
    assert client.head is None
    body.send(BROKEN, FINISH, DONE)
    body.end()
    await answer_whole(runtime, 1, "{}")
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED


async def test_a_preamble_alone_is_released_after_its_time(runtime):
    client = runtime.ask(GUARDED)
    body = await runtime.streaming(ROLE)
    await runtime.clock.advance(1.1)
    assert bytes(client.received) == ROLE
    body.send(STOP, DONE)
    body.end()
    await client.end()


async def test_a_call_that_is_broken_in_the_whole_answer_too_goes_to_the_next_channel(runtime):
    client = runtime.ask(GUARDED, OTHER)
    (await runtime.streaming(BEGUN, BROKEN, FINISH, DONE)).end()
    await answer_whole(runtime, 1, '{"a":1')
    body = await runtime.streaming(BEGUN, REST, FINISH, DONE, number=2)
    body.end()
    await client.end()
    assert [a.channel_id for a in runtime.recorder.one.attempts] == [1, 1, 2]
    assert bytes(client.received) == BEGUN + REST + FINISH + DONE


async def test_once_text_was_seen_a_broken_call_is_told_in_band(runtime):
    client = runtime.ask(GUARDED, OTHER)
    body = await runtime.streaming(HELLO)
    body.send(BEGUN, BROKEN, FINISH, DONE)
    body.end()
    await client.end()
    assert len(runtime.transport.exchanges) == 1
    assert client.received.startswith(HELLO + b'data: {"error"')
    assert b"tool_call_invalid" in client.received
    assert BEGUN not in client.received
    assert DONE not in client.received
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_PROTOCOL_ERROR


async def test_a_body_that_breaks_off_within_a_call_shows_nothing_of_it(runtime):
    client = runtime.ask(GUARDED)
    body = await runtime.streaming(HELLO)
    body.send(BEGUN)
    body.fail(httpx.ReadError("cut"))
    await client.end()
    assert BEGUN not in client.received
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_RESET


@pytest.mark.parametrize("end", ["eof", "terminal"])
async def test_a_call_without_a_finish_is_not_passed_on(runtime, end):
    client = runtime.ask(GUARDED, stream=True)
    body = await runtime.streaming(HELLO)
    body.send(BEGUN, *([DONE] if end == "terminal" else []))
    body.end()
    await client.end()
    assert BEGUN not in client.received
    assert DONE not in client.received


async def test_with_several_choices_all_are_waited_for(runtime):
    client = runtime.ask(GUARDED, n=2)
    second = frame({"content": "text"}, choice=1)
    ends = frame({}, "stop", choice=1)
    body = await runtime.streaming(HELLO, second)
    body.send(BEGUN, REST, FINISH)
    await settle()
    assert bytes(client.received) == HELLO + second
    body.send(ends, DONE)
    body.end()
    await client.end()
    assert bytes(client.received) == HELLO + second + BEGUN + REST + FINISH + ends + DONE


def event(name: str, **members) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps({"type": name, **members}) + b"\n\n"


def messages_stream(arguments: str) -> list[bytes]:
    block = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": arguments}
    return [
        event("message_start", message={"model": "m", "usage": {"input_tokens": 1}}),
        event("content_block_start", index=0, content_block=block),
        event("content_block_delta", index=0, delta=delta),
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 1}),
        event("message_stop"),
    ]


@pytest.mark.parametrize(("arguments", "is_sound"), [('{"a":1}', True), ('{"a":', False)])
async def test_messages(runtime, arguments, is_sound):
    channel = replace(GUARDED, kind="anthropic")
    client = runtime.ask(channel, path="/v1/messages", dialect="anthropic", max_tokens=9)
    sent = messages_stream(arguments)
    (await runtime.streaming(*sent)).end()
    if is_sound:
        await client.end()
        assert bytes(client.received) == b"".join(sent)
        return
    (await runtime.sent(1)).headers(400, JSON).end()
    await client.end()
    assert client.refusal is not None


async def test_responses_are_not_asked_again_even_with_a_key(runtime):
    """They may be sent twice only with an `Idempotency-Key`: the error is told in-band instead."""
    item = {"type": "function_call", "id": "f", "call_id": "c", "name": "look", "arguments": ""}
    done = {**item, "arguments": '{"a":'}
    response = {"id": "r", "status": "completed", "model": "m", "output": [done]}
    client = runtime.ask(
        GUARDED, OTHER, path="/v1/responses", dialect="openai_responses", input="hi", idempotency_key="k"
    )
    body = await runtime.streaming(
        event("response.created", response={"id": "r"}),
        event("response.output_item.added", output_index=0, item=item),
        event("response.output_item.done", output_index=0, item=done),
        event("response.completed", response=response),
    )
    body.end()
    await client.end()
    assert len(runtime.transport.exchanges) == 1
    assert client.head.status == 200
    name, _, data = client.received.partition(b"\ndata: ")
    assert name == b"event: error", "something of the call was shown"
    assert orjson.loads(data)["code"] == "tool_call_invalid"
