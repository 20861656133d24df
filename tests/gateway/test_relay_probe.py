"""The probe against the simulator: each fault gets its verdict, and only a sound answer is fine."""

import asyncio
import io
import ipaddress
import json
import socket
import threading

import pytest
from django.core.management import CommandError, call_command

from channels_admin.services import channel_set_status
from channels_admin.statuses import RouteStatus
from gateway.probe import FORMS, Question, Verdict, probe
from gateway.simulator import running_simulator
from relay.core.types import Channel, PlainSecret, StreamMode, StreamPolicy, UpstreamKey
from relay.core.upstream_kinds import UPSTREAM_KINDS, speaks
from tests.factories.channels import a_channel, a_policy, an_upstream_key

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
KEY = "sk-canary-probe-0123456789"

STREAMED = [
    ("echo-0", Verdict.FINE, "completed"),
    ("no-done", Verdict.FINE, "completed_without_terminal"),
    ("not-json-mid", Verdict.FINE, "completed"),
    ("usage-missing", Verdict.NO_USAGE, "completed"),
    ("slow-headers-5", Verdict.HEADERS_LATE, "header_timeout"),
    ("keepalive-only", Verdict.STUCK_200, "first_event_timeout"),
    ("slow-first-event-5", Verdict.STUCK_200, "first_event_timeout"),
    ("stall-after-3", Verdict.STALLED, "idle_timeout"),
    ("error-in-200", Verdict.ERROR_IN_200, "upstream_error_event"),
    ("error-first-event", Verdict.ERROR_IN_200, "upstream_error_event"),
    ("error-mid", Verdict.ERROR_IN_200, "upstream_error_event"),
    ("html-200", Verdict.NOT_SSE, "bad_content_type"),
    ("json-for-sse", Verdict.NOT_SSE, "bad_content_type"),
    ("eof-after-3", Verdict.INCOMPLETE, "incomplete"),
    ("cut-after-3", Verdict.INCOMPLETE, "upstream_reset"),
    ("done-only", Verdict.EMPTY, "empty_response"),
    ("reset-before-headers", Verdict.CUT_BEFORE_HEADERS, "upstream_reset"),
    ("bad-status-line", Verdict.BROKEN, "upstream_protocol_error"),
    ("status-503", Verdict.REJECTED, "upstream_rejected"),
    ("refuse-keys", Verdict.REJECTED, "upstream_rejected"),
]
WHOLE = [
    ("echo-0", Verdict.FINE, "completed"),
    ("usage-missing", Verdict.NO_USAGE, "completed"),
    ("slow-headers-5", Verdict.HEADERS_LATE, "non_stream_timeout"),
    ("keepalive-only", Verdict.ANSWER_LATE, "non_stream_timeout"),
    ("error-in-200", Verdict.ERROR_IN_200, "upstream_error_event"),
    ("html-200", Verdict.NOT_JSON, "bad_content_type"),
]


def channel_to(base_url, policy=None, kind="openai"):
    keys = (UpstreamKey(1, "", PlainSecret(KEY)),)
    return Channel(1, "probe", kind, base_url, ("*",), keys, policy=policy or StreamPolicy())


async def ask(model, *, is_streamed=True, policy=None, kind="openai"):
    async with running_simulator() as simulator:
        question = Question(model=model, is_streamed=is_streamed, patience_s=0.6)
        return await probe(channel_to(simulator.base_url, policy, kind), question, LOOPBACK)


@pytest.mark.parametrize(("model", "verdict", "end_reason"), STREAMED)
async def test_verdicts_on_streams(model, verdict, end_reason):
    finding = await ask(model)
    assert (finding.verdict, finding.attempt.end_reason) == (verdict, end_reason)
    assert finding.is_sound == (verdict is Verdict.FINE)
    assert finding.words


@pytest.mark.parametrize(("model", "verdict", "end_reason"), WHOLE)
async def test_verdicts_on_whole_answers(model, verdict, end_reason):
    finding = await ask(model, is_streamed=False)
    assert (finding.verdict, finding.attempt.end_reason) == (verdict, end_reason)


@pytest.mark.parametrize("kind", ["anthropic", "gemini"])
@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize(
    ("model", "verdict"),
    [
        ("echo-0", Verdict.FINE),
        ("usage-missing", Verdict.NO_USAGE),
        ("html-200", None),
        ("status-529", Verdict.REJECTED),
    ],
)
async def test_each_kind_is_asked_in_its_own_dialect(model, verdict, is_streamed, kind):
    finding = await ask(model, is_streamed=is_streamed, kind=kind)
    assert finding.verdict is (verdict or (Verdict.NOT_SSE if is_streamed else Verdict.NOT_JSON))


@pytest.mark.parametrize("kind", UPSTREAM_KINDS)
def test_there_is_a_form_for_every_kind(kind):
    assert any(speaks(kind, form.dialect.name) for form in FORMS)


async def test_nobody_listens():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        base_url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        finding = await probe(channel_to(base_url), Question(model="m", patience_s=1), LOOPBACK)
    assert finding.verdict is Verdict.CONNECT_FAILED
    assert finding.attempt.connect_ms is None


async def test_an_address_that_may_not_be_dialled_is_a_failed_connection():
    finding = await probe(channel_to("http://127.0.0.1:9"), Question(model="m", patience_s=1), ())
    assert finding.verdict is Verdict.CONNECT_FAILED


async def test_times_come_in_order_and_usage_with_them():
    finding = await ask("echo")
    attempt = finding.attempt
    times = [attempt.connect_ms, attempt.header_ms, attempt.first_event_ms, attempt.duration_ms]
    assert times == sorted(times)
    assert attempt.duration_ms > attempt.first_event_ms + 100, "echo takes about 30 ms a word"
    assert attempt.usage.is_complete


async def test_a_channels_stream_policy_is_obeyed_but_not_its_patience():
    forced = StreamPolicy(stream_policy=StreamMode.FORCE_STREAM, idle_timeout_s=300.0)
    finding = await ask("stall-after-3", is_streamed=False, policy=forced)
    assert finding.attempt.stream_sent
    assert finding.verdict is Verdict.STALLED


async def test_a_policy_without_streams_hides_stream_faults():
    forced = StreamPolicy(stream_policy=StreamMode.FORCE_NON_STREAM)
    finding = await ask("no-done", policy=forced)
    assert not finding.attempt.stream_sent
    assert finding.verdict is Verdict.FINE


async def test_one_try_only():
    async with running_simulator() as simulator:
        question = Question(model="flaky-2", patience_s=1)
        finding = await probe(channel_to(simulator.base_url), question, LOOPBACK)
        assert finding.verdict is Verdict.REJECTED
        assert len(simulator.requests) == 1


# The command.


@pytest.fixture
def simulator_url():
    """In a loop of its own: the command runs one, too."""
    ready, stop = threading.Event(), asyncio.Event()
    found = {}

    async def serve():
        async with running_simulator(required_key=KEY) as simulator:
            found.update(url=simulator.base_url, loop=asyncio.get_running_loop())
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10)
    yield found["url"]
    found["loop"].call_soon_threadsafe(stop.set)
    thread.join(10)


def run(*arguments):
    """What it wrote, and its exit code."""
    out = io.StringIO()
    try:
        call_command("relay_probe", *arguments, stdout=out, stderr=out)
    except SystemExit as error:
        return out.getvalue(), error.code
    return out.getvalue(), 0


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
def test_any_base_url_with_the_key_from_the_environment(simulator_url, monkeypatch, tail):
    monkeypatch.setenv("PROBE_KEY", KEY)
    out, code = run("--base-url", simulator_url + tail, "--key-env", "PROBE_KEY", "--model", "echo-0")
    assert code == 0
    lines = dict(line.split(None, 1) for line in out.splitlines() if line.startswith(("connect", "verdict")))
    assert lines["verdict"] == "fine: a whole answer with its usage"
    assert lines["connect"].endswith(" ms")
    assert KEY not in out


def test_without_the_right_key(simulator_url, monkeypatch):
    monkeypatch.setenv("PROBE_KEY", "sk-canary-wrong-9876543210")
    out, code = run("--base-url", simulator_url, "--key-env", "PROBE_KEY", "--model", "echo-0")
    assert code == 1
    assert "verdict      rejected: status 401: it does not take the key" in out
    assert "sk-canary" not in out


def test_json_holds_the_same(simulator_url, monkeypatch):
    monkeypatch.setenv("PROBE_KEY", KEY)
    arguments = (
        "--base-url",
        simulator_url,
        "--key-env",
        "PROBE_KEY",
        "--no-stream",
        "--json",
        "--prompt",
        "say-this",
    )
    out, code = run(*arguments, "--model", "usage-missing")
    told = json.loads(out)
    assert code == 1
    assert (told["verdict"], told["sound"], told["status"]) == ("no usage", False, 200)
    assert "say-this" not in out
    out, code = run(*arguments, "--model", "echo-0")
    assert (json.loads(out)["sound"], code) == (True, 0)
    assert "say-this" not in out


@pytest.mark.django_db(transaction=True)
def test_a_configured_channel_even_when_it_is_switched_off(simulator_url, settings):
    settings.UPSTREAM_ALLOWED_PRIVATE_NETS = LOOPBACK
    policy = a_policy(stream_policy="force_stream")
    channel = a_channel(
        keys=0, base_url=simulator_url, models=["gpt-*", "echo-0"], policy=policy, name="main"
    )
    with pytest.raises(CommandError, match="has no upstream key"):
        run("--channel", "main")
    an_upstream_key(channel, KEY)
    channel_set_status(channel_id=channel.pk, status=RouteStatus.DISABLED)
    out, code = run("--channel", "main", "--no-stream", "--json")
    assert code == 0
    assert json.loads(out)["model"] == "echo-0"
    assert KEY not in out


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--channel", "nosuch"), "There is no channel 'nosuch'"),
        (("--channel", "main", "--key-env", "X"), "--key-env belongs to --base-url"),
        (("--channel", "main"), "--model is needed"),
        (("--base-url", "ftp://x", "--model", "m"), "--base-url: The URL must begin with"),
        (("--base-url", "http://127.0.0.1:9"), "--model is needed"),
        (("--base-url", "http://127.0.0.1:9", "--model", "m", "--key-env", "NO_SUCH_KEY"), "variable is not set"),
        (("--base-url", "http://127.0.0.1:9", "--model", "m", "--patience", "0"), "--patience: between"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(arguments, told):
    a_channel(name="main", models=["gpt-*"])
    with pytest.raises(CommandError, match=told):
        run(*arguments)
