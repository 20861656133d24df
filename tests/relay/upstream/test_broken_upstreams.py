"""What an attempt makes of answers that no vendor means: absurd usage, choices that are no list or missing."""

import pytest

from relay.core.end_reasons import EndReason
from tests.fakes.runtime import DONE, HELLO, STOP, WHOLE, WORLD, a_channel

JSON = {"content-type": "application/json"}
TWO = (a_channel(number=1), a_channel(number=2))
NO_LIST = b'data: {"choices":{"0":1}}\n\n'
ABSURD = b'{"prompt_tokens":1000000000000000000000000000000,"completion_tokens":2}'


async def test_a_stream_that_begins_with_choices_that_are_no_list_starts_another_attempt(runtime):
    client = runtime.ask(*TWO)
    (await runtime.streaming(NO_LIST, DONE)).end()
    (await runtime.streaming(HELLO, STOP, DONE, number=1)).end()
    await client.end()
    reasons = [attempt.end_reason for attempt in runtime.recorder.one.attempts]
    assert reasons == [EndReason.UPSTREAM_PROTOCOL_ERROR, EndReason.COMPLETED]
    assert bytes(client.received) == HELLO + STOP + DONE


async def test_choices_that_are_no_list_after_the_commit_point_are_a_soft_error_and_not_relayed(runtime):
    client = runtime.ask()
    (await runtime.streaming(HELLO, NO_LIST, WORLD, STOP, DONE)).end()
    await client.end()
    attempt = runtime.recorder.one.attempts[0]
    assert (attempt.end_reason, attempt.soft_error_count) == (EndReason.COMPLETED, 1)
    assert bytes(client.received) == HELLO + WORLD + STOP + DONE


@pytest.mark.parametrize("body", [b"{}", b'{"choices":"x"}', b'{"choices":[]}'])
async def test_a_whole_body_without_choices_starts_another_attempt(runtime, body):
    client = runtime.ask(*TWO, stream=False)
    for number, sent in enumerate((body, WHOLE)):
        upstream = (await runtime.sent(number)).headers(headers=JSON)
        upstream.send(sent)
        upstream.end()
    await client.end()
    reasons = [attempt.end_reason for attempt in runtime.recorder.one.attempts]
    assert reasons == [EndReason.UPSTREAM_PROTOCOL_ERROR, EndReason.COMPLETED]
    assert bytes(client.received) == WHOLE


async def test_an_absurd_usage_of_a_whole_answer_is_a_soft_error(runtime):
    client = runtime.ask(stream=False)
    body = (await runtime.sent()).headers(headers=JSON)
    body.send(b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":' + ABSURD + b"}")
    body.end()
    await client.end()
    _assert_half_reported(runtime.recorder.one)


async def test_an_absurd_usage_of_a_stream_is_a_soft_error(runtime):
    client = runtime.ask()
    usage = b'data: {"choices":[],"usage":' + ABSURD + b"}\n\n"
    (await runtime.streaming(HELLO, STOP, usage, DONE)).end()
    await client.end()
    _assert_half_reported(runtime.recorder.one)


def _assert_half_reported(outcome):
    attempt = outcome.attempts[0]
    assert attempt.end_reason is EndReason.COMPLETED
    assert [error.error_class for error in attempt.soft_errors] == ["usage_absurd"]
    assert (attempt.usage.input, attempt.usage.output) == (None, 2)
    assert not attempt.usage_complete
