"""What stream policies make of messages, and what only this API has: token counts, an account without credit."""

import orjson

from relay.core.end_reasons import EndReason
from relay.core.types import StreamMode, StreamPolicy
from tests.fakes.runtime import a_channel
from tests.relay.core.dialects.anthropic_samples import (
    PING,
    STOP,
    TEXT,
    TOOLS,
    calling,
    closed,
    ended,
    events_of,
    said,
    started,
)

JSON = {"content-type": "application/json"}
ASKED = {"dialect": "anthropic", "path": "/v1/messages", "max_tokens": 99}
WHOLE = (
    b'{"id":"msg_01","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"}],'
    b'"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":2}}'
)


async def test_a_preamble_is_held_no_longer_than_the_policy_says(runtime):
    client = runtime.ask(a_channel(policy=StreamPolicy(preamble_hold_s=1.0)), **ASKED)
    body = await runtime.streaming(started(), PING)
    assert not client.received
    await runtime.clock.advance(1.1)
    assert bytes(client.received) == started() + PING
    body.send(TEXT, said("x"), closed(), ended(), STOP)
    body.end()
    await client.end()


async def test_force_stream_makes_a_whole_message(runtime):
    client = runtime.ask(
        a_channel(policy=StreamPolicy(stream_policy=StreamMode.FORCE_STREAM)), stream=False, **ASKED
    )
    body = await runtime.streaming(TOOLS)
    body.end()
    await client.end()
    sent = orjson.loads(runtime.transport.exchanges[0].request.content)
    assert sent["stream"] is True
    message = orjson.loads(bytes(client.received))
    assert [block["type"] for block in message["content"]] == ["text", "tool_use", "tool_use"]
    assert runtime.recorder.one.usage.output == 89


async def test_force_stream_with_a_broken_tool_call_is_no_answer(runtime):
    client = runtime.ask(
        a_channel(policy=StreamPolicy(stream_policy=StreamMode.FORCE_STREAM)), stream=False, **ASKED
    )
    body = await runtime.streaming(started(), calling(['{"city": ']), ended("tool_use"), STOP)
    body.end()
    answer = (await runtime.sent(1)).headers(headers=JSON)  # asked once more, without a stream
    answer.send(WHOLE)
    answer.end()
    await client.end()
    assert runtime.recorder.one.attempts[0].end_reason is EndReason.UPSTREAM_PROTOCOL_ERROR
    assert runtime.recorder.one.attempts[0].error_class == "tool_call_invalid"
    assert bytes(client.received) == WHOLE


async def test_force_non_stream_makes_a_stream(runtime):
    client = runtime.ask(a_channel(policy=StreamPolicy(stream_policy=StreamMode.FORCE_NON_STREAM)), **ASKED)
    body = (await runtime.sent()).headers(headers=JSON)
    body.send(WHOLE)
    body.end()
    await client.end()
    names = [event.event for event in events_of(bytes(client.received))]
    assert names == [
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
        "message_stop",
    ]  # fmt: skip
    assert orjson.loads(runtime.transport.exchanges[0].request.content)["stream"] is False


async def test_counting_tokens_is_never_streamed_and_never_charged(runtime):
    channel = a_channel(policy=StreamPolicy(stream_policy=StreamMode.FORCE_STREAM))
    asked = {"dialect": "anthropic_count_tokens", "path": "/v1/messages/count_tokens"}
    client = runtime.ask(channel, stream=False, **asked)
    body = (await runtime.sent()).headers(headers=JSON)
    body.send(b'{"input_tokens":2095}')
    body.end()
    await client.end()
    assert bytes(client.received) == b'{"input_tokens":2095}'
    assert orjson.loads(runtime.transport.exchanges[0].request.content)["stream"] is False
    assert (runtime.recorder.one.usage.input, runtime.recorder.one.usage.output) == (0, 0)


async def test_an_empty_account_at_the_upstream_is_a_matter_of_its_key(runtime):
    client = runtime.ask(stream=False, **ASKED)
    body = (await runtime.sent()).headers(400, headers=JSON)
    body.send(
        b'{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low."}}'
    )
    body.end()
    await client.end()
    assert (client.refusal.status, client.refusal.code) == (502, "upstream_credentials_exhausted")
    assert "credit" not in client.refusal.message
