"""A client that reads slower than its upstream writes."""

from relay.core.end_reasons import EndReason
from tests.fakes.runtime import DONE, HELLO, STOP, a_channel, a_request, settle

BIG = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 1_100_000 + b'"}}]}\n\n'


async def test_an_answer_that_came_whole_is_delivered_whole_whatever_ends_it_meanwhile(runtime):
    running = runtime.engine.start(a_request(received_at=runtime.clock.now()), [a_channel()])
    body = await runtime.streaming(HELLO)
    await running.head()
    body.send(BIG)
    await settle()
    assert running.pump.is_full
    body.send(STOP, DONE)
    await settle()
    running.stop(EndReason.BALANCE_EXHAUSTED)
    await settle()
    received = b"".join([data async for data in running.pump])
    running.client_done(consumed=True)
    await running.join()
    assert received == HELLO + BIG + STOP + DONE
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED
