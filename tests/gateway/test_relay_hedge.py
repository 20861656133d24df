"""Racing gateways from a terminal: one answer, the loser cut off, and a whole answer when streams fail."""

import asyncio
import io

import orjson
import pytest
from django.core.management import CommandError, call_command

from gateway.management.commands.relay_hedge import Command
from tests.fakes.runtime import DONE, ERROR, HELLO, STOP, WHOLE
from tests.fakes.scripted_upstream import LAST_CHUNK, SSE_HEAD, ScriptedUpstream, Send, WaitLost, chunk, ok

KEY = "sk-canary-hedge-0123456789"
SILENT = [WaitLost()]
FAILED = [Send(SSE_HEAD + chunk(ERROR) + LAST_CHUNK)]
ANSWER = [Send(SSE_HEAD + b"".join(map(chunk, (HELLO, STOP, DONE))) + LAST_CHUNK)]
ANSWER_WHOLE = [Send(ok(WHOLE, b"content-type: application/json"))]


async def run(*upstreams: ScriptedUpstream, **options) -> tuple[str, str, int]:
    """What stands on stdout and stderr, and the exit status."""
    out, err = io.StringIO(), io.StringIO()
    bases = [f"--base={upstream.url}" for upstream in upstreams]
    more = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]

    def command() -> int:
        try:
            call_command(Command(), *bases, "--model=m", *more, stdout=out, stderr=err)
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    status = await asyncio.to_thread(command)
    return out.getvalue(), err.getvalue(), status


async def test_the_second_gateway_answers_when_the_first_is_late(monkeypatch):
    monkeypatch.setenv("RACE_KEY", KEY)
    async with ScriptedUpstream(SILENT) as slow, ScriptedUpstream(ANSWER) as fast:
        out, err, status = await run(slow, fast, delay=0.05, key_env="RACE_KEY")
        await slow.connections[0].wait_lost(1)
    assert (out, status) == ((HELLO + STOP + DONE).decode(), 0)
    first, second = err.splitlines()
    assert first.endswith("hedge_lost")
    assert second.endswith("completed, answered")
    assert KEY not in out + err
    assert fast.requests[0].headers[b"authorization"] == f"Bearer {KEY}".encode()
    assert orjson.loads(fast.requests[0].body)["stream"] is True


async def test_the_second_gateway_is_not_asked_when_the_first_is_in_time():
    async with ScriptedUpstream(ANSWER) as first, ScriptedUpstream(ANSWER) as second:
        out, _err, status = await run(first, second, delay=5)
        assert not second.connections
    assert (out, status) == ((HELLO + STOP + DONE).decode(), 0)


async def test_when_both_streams_fail_the_first_is_asked_for_a_whole_answer():
    async with ScriptedUpstream(FAILED, ANSWER_WHOLE) as first, ScriptedUpstream(FAILED) as second:
        out, err, status = await run(first, second)
    assert "Hello world" in out
    assert status == 0
    assert len(err.splitlines()) == 3
    assert orjson.loads(first.requests[1].body)["stream"] is False


async def test_when_all_fail_it_says_why_and_fails():
    async with ScriptedUpstream(FAILED) as first, ScriptedUpstream(FAILED) as second:
        out, err, status = await run(first, second)
    assert (out, status) == ("", 1)
    assert len(err.splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--base=http://a.test"], "two gateways"),
        (["--base=http://a.test", "--base=http://a.test"], "named twice"),
        (["--base=ftp://a.test", "--base=http://b.test"], "--base"),
        (["--base=http://a.test", "--base=http://b.test", "--delay=0"], "--delay"),
        (["--base=http://a.test", "--base=http://b.test", "--key-env=NO_SUCH_NAME"], "NO_SUCH_NAME"),
    ],
)
def test_what_it_cannot_do_it_says(arguments, words):
    with pytest.raises(CommandError, match=words):
        call_command(Command(), *arguments, "--model=m")
