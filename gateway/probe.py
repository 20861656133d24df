"""One question to one upstream, through the real engine: how long each step takes, and what is wrong.

For the command line and for whoever else wants to know whether an upstream is sound. Must not import
Django, models or settings: the caller brings the channel.
"""

import asyncio
import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from urllib.parse import quote

import orjson

from gateway.alone import FixedControl, OneOutcome
from relay.core.dialects.anthropic import ANTHROPIC
from relay.core.dialects.base import Dialect, ReadsTargets
from relay.core.dialects.gemini import GEMINI
from relay.core.dialects.gemini.request import resource_of
from relay.core.dialects.openai_chat import OPENAI_CHAT
from relay.core.end_reasons import EndReason
from relay.core.errors import Refusal
from relay.core.outcomes import AttemptOutcome
from relay.core.path_families import classify
from relay.core.request import RelayRequest
from relay.core.types import Caller, Channel, RelayFlags, StreamMode, StreamPolicy
from relay.core.upstream_kinds import speaks
from relay.upstream.clock import LoopClock
from relay.upstream.engine import Engine
from relay.upstream.transports.build import build_transport

PROMPT = "Answer with one short sentence: what is a sluice?"
PATIENCE_S = 30.0
TOTAL_FACTOR = 10


class Verdict(StrEnum):
    FINE = "fine"
    CONNECT_FAILED = "connect failed"
    HEADERS_LATE = "headers late"
    ANSWER_LATE = "answer late"
    STUCK_200 = "stuck 200"
    STALLED = "stalled"
    REJECTED = "rejected"
    ERROR_IN_200 = "error in 200"
    NOT_SSE = "not SSE"
    NOT_JSON = "not JSON"
    EMPTY = "empty answer"
    BROKEN = "broken protocol"
    CUT_BEFORE_HEADERS = "cut before headers"
    INCOMPLETE = "stream incomplete"
    NO_USAGE = "no usage"
    GATEWAY = "gateway failed"


@dataclass(frozen=True, slots=True)
class Question:
    """patience_s: the longest wait for headers, for the first event and between two pieces."""

    model: str
    is_streamed: bool = True
    prompt: str = PROMPT
    patience_s: float = PATIENCE_S


@dataclass(frozen=True, slots=True)
class Form:
    """How the question is put in one dialect: path, query and body."""

    dialect: Dialect
    ask: Callable[[Question], tuple[str, str, dict[str, object]]]


def _messages(path: str, **limits: int) -> Callable[[Question], tuple[str, str, dict[str, object]]]:
    """limits: members that keep the answer short, where demanded."""

    def ask(question: Question) -> tuple[str, str, dict[str, object]]:
        messages = [{"role": "user", "content": question.prompt}]
        body = {**limits, "model": question.model, "stream": question.is_streamed, "messages": messages}
        return path, "", body

    return ask


def _contents(question: Question) -> tuple[str, str, dict[str, object]]:
    verb = "streamGenerateContent" if question.is_streamed else "generateContent"
    body: dict[str, object] = {"contents": [{"role": "user", "parts": [{"text": question.prompt}]}]}
    query = "alt=sse" if question.is_streamed else ""
    return f"/v1beta/{quote(resource_of(question.model))}:{verb}", query, body


FORMS = (
    Form(OPENAI_CHAT, _messages("/v1/chat/completions")),
    Form(ANTHROPIC, _messages("/v1/messages", max_tokens=1024)),
    Form(GEMINI, _contents),
)
"""The first that a channel's kind speaks is taken."""


@dataclass(frozen=True, slots=True)
class Finding:
    """words: the verdict for people. told: what a client would have been told, scrubbed; else empty."""

    verdict: Verdict
    words: str
    told: str
    attempt: AttemptOutcome

    @property
    def is_sound(self) -> bool:
        return self.verdict is Verdict.FINE


async def probe(
    channel: Channel, question: Question, allowed_private_nets: Sequence[IPv4Network | IPv6Network]
) -> Finding:
    """Asks once and reads to the end. Never raises for what the upstream does."""
    transport = build_transport(allowed_private_nets)
    await transport.start()
    recorder = OneOutcome()
    engine = Engine(
        transport=transport,
        clock=LoopClock(),
        chance=random.Random(),
        control=FixedControl(_flags(question.patience_s)),
        recorder=recorder,
    )
    try:
        request = _request(question, _form(channel.kind))
        told = await _read_all(engine, request, _patient(channel, question.patience_s))
        outcome = await asyncio.wait_for(recorder.outcome, timeout=question.patience_s)
    finally:
        await engine.aclose()
        await transport.aclose()
    attempt = outcome.attempts[0]
    verdict, words = judge(attempt)
    return Finding(verdict, words, told, attempt)


def _flags(patience_s: float) -> RelayFlags:
    return RelayFlags(
        header_timeout_s=patience_s,
        non_stream_timeout_s=patience_s,
        channel_retry_times=0,
        retry_times=0,
    )


def _patient(channel: Channel, patience_s: float) -> Channel:
    """The channel with one key, so that there is one attempt, and with the probe's timers.

    Its own may be meant for answers of an hour.
    """
    policy: StreamPolicy = replace(
        channel.policy,
        header_timeout_s=patience_s,
        first_event_timeout_s=patience_s,
        idle_timeout_s=patience_s,
        event_idle_timeout_s=patience_s,
        total_timeout_s=patience_s * TOTAL_FACTOR,
        early_commit_s=0.0,
    )
    # Where the upstream streams a whole answer, its silence is told by the idle timer.
    is_forced = policy.stream_policy is StreamMode.FORCE_STREAM
    return replace(
        channel,
        keys=channel.keys[:1],
        policy=policy,
        connect_timeout_s=min(channel.connect_timeout_s, patience_s),
        non_stream_timeout_s=patience_s * TOTAL_FACTOR if is_forced else patience_s,
    )


def _form(kind: str) -> Form:
    """Raises LookupError for a kind that is asked in no form known here."""
    for form in FORMS:
        if speaks(kind, form.dialect.name):
            return form
    raise LookupError(kind)


def _request(question: Question, form: Form) -> RelayRequest:
    path, query, asked = form.ask(question)
    body = orjson.dumps(asked)
    dialect = form.dialect
    if isinstance(dialect, ReadsTargets):
        ask = dialect.parse_call(path, query, body)
    else:
        ask = dialect.parse_request(body)
    return RelayRequest(
        id=f"probe-{uuid.uuid4()}",
        caller=Caller(api_key_id=0, tenant_id=0, tenant_name="probe", group="probe"),
        method="POST",
        path=path,
        query=query,
        headers=((b"content-type", b"application/json"),),
        body=body,
        family=classify(path),
        dialect=dialect,
        ask=ask,
        is_replayable=False,
        is_image=False,
        received_at=time.monotonic(),
    )


async def _read_all(engine: Engine, request: RelayRequest, channel: Channel) -> str:
    """What the client was told instead of an answer, else empty."""
    running = engine.start(request, [channel])
    told = ""
    try:
        head = await running.head()
    except Refusal as refusal:
        told = refusal.message
    else:
        if head.body is None:
            async for _ in running.pump:
                pass
    running.client_done(consumed=True)
    await running.join()
    return told


def judge(attempt: AttemptOutcome) -> tuple[Verdict, str]:  # noqa: PLR0911  one line a case
    """The verdict on one attempt, and what it means."""
    reason = attempt.end_reason
    match reason:
        case EndReason.COMPLETED | EndReason.COMPLETED_WITHOUT_TERMINAL:
            return _judge_success(attempt)
        case EndReason.UPSTREAM_REJECTED:
            return Verdict.REJECTED, _rejection(attempt.status)
        case EndReason.BAD_CONTENT_TYPE if not attempt.stream_sent:
            return Verdict.NOT_JSON, "the answer says it is something other than JSON"
        case EndReason.NON_STREAM_TIMEOUT | EndReason.HEADER_TIMEOUT if attempt.header_ms is not None:
            return Verdict.ANSWER_LATE, "headers came, the whole answer did not in time"
        case EndReason.UPSTREAM_RESET if attempt.header_ms is None:
            return Verdict.CUT_BEFORE_HEADERS, "the connection ended before any headers"
        case EndReason.UPSTREAM_ERROR_EVENT if attempt.events > 0:
            return Verdict.ERROR_IN_200, f"an error came after {attempt.events} events of a 200 answer"
        case _:
            return _FAILURES.get(reason, (Verdict.GATEWAY, f"the gateway ended it: {reason}"))


_FAILURES = {
    EndReason.CONNECT_FAILED: (Verdict.CONNECT_FAILED, "no connection: address, port, TLS or name look-up"),
    EndReason.HEADER_TIMEOUT: (Verdict.HEADERS_LATE, "connected, but no response headers in time"),
    EndReason.NON_STREAM_TIMEOUT: (Verdict.HEADERS_LATE, "connected, but no response headers in time"),
    EndReason.FIRST_BYTE_TIMEOUT: (Verdict.STUCK_200, "200 and headers, then not one byte"),
    EndReason.FIRST_EVENT_TIMEOUT: (Verdict.STUCK_200, "200 and headers, but no valid event in time"),
    EndReason.IDLE_TIMEOUT: (Verdict.STALLED, "the stream began and then fell silent"),
    EndReason.TOTAL_TIMEOUT: (Verdict.STALLED, "the stream went on for too long"),
    EndReason.UPSTREAM_ERROR_EVENT: (Verdict.ERROR_IN_200, "status 200, but the answer is an error"),
    EndReason.BAD_CONTENT_TYPE: (Verdict.NOT_SSE, "a stream was asked for, and the answer is none"),
    EndReason.EMPTY_RESPONSE: (Verdict.EMPTY, "status 200, but nothing of an answer in it"),
    EndReason.UPSTREAM_PROTOCOL_ERROR: (Verdict.BROKEN, "what came is no valid HTTP, or no readable answer"),
    EndReason.INCOMPLETE: (Verdict.INCOMPLETE, "the stream ended cleanly before the answer was finished"),
    EndReason.UPSTREAM_RESET: (Verdict.INCOMPLETE, "the connection broke before the answer was finished"),
}


def _judge_success(attempt: AttemptOutcome) -> tuple[Verdict, str]:
    remarks = []
    if attempt.end_reason is EndReason.COMPLETED_WITHOUT_TERMINAL:
        remarks.append("the end mark was missing, which clients of the gateway get all the same")
    if attempt.soft_error_count:
        remarks.append(f"{attempt.soft_error_count} unreadable frames were left out")
    if not attempt.usage_complete:
        return Verdict.NO_USAGE, "; ".join(["a whole answer, but no token usage to bill by", *remarks])
    return Verdict.FINE, "; ".join(["a whole answer with its usage", *remarks])


def _rejection(status: int | None) -> str:
    meaning = {
        400: "it does not take the request",
        401: "it does not take the key",
        403: "the key may not do this",
        404: "it knows no such model or path",
        429: "rate limit or quota",
    }.get(status or 0, "it failed" if status and status >= 500 else "it refuses")
    return f"status {status}: {meaning}"
