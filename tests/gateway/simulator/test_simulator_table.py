"""The table itself, and every row of it in every dialect: nothing crashes, nothing stays behind."""

import asyncio
import logging

import pytest

from gateway.simulator import Simulator, all_behaviours
from gateway.simulator.registry import choose
from tests.gateway.simulator.talk import QUESTION, chat, hear

TABLE = all_behaviours()

# Rows whose example takes seconds: the same behaviour with a number that does not.
QUICK = {
    "slow-headers-5": "slow-headers-0.05",
    "slow-first-byte-5": "slow-first-byte-0.05",
    "slow-first-event-5": "slow-first-event-0.05",
    "image-slow-5": "image-slow-0.05",
    "interval-40": "interval-0.01",
    "long-silence-40": "long-silence-0.05",
    "big-event-8mb": "big-event-1mb",
    "many-events-20000": "many-events-500",
    "drip-50": "drip-0",
}

# Rows that go on until the client leaves.
ENDLESS = {"stall-after-3", "comments-after-3", "keepalive-only", "finish-then-silence"}

REQUESTS = {
    "chat": ("/v1/chat/completions", chat("{model}")),
    "chat-whole": ("/v1/chat/completions", chat("{model}", stream=False)),
    "completions": ("/v1/completions", {"model": "{model}", "stream": True, "prompt": QUESTION}),
    "responses": ("/v1/responses", {"model": "{model}", "stream": True, "input": QUESTION}),
    "messages": ("/v1/messages", chat("{model}", max_tokens=100)),
    "messages-whole": ("/v1/messages", chat("{model}", stream=False, max_tokens=100)),
    "gemini": (
        "/v1beta/models/{model}:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]},
    ),
    "images": ("/v1/images/generations", {"model": "{model}", "prompt": QUESTION}),
    "images-stream": (
        "/v1/images/generations",
        {"model": "{model}", "prompt": QUESTION, "stream": True, "partial_images": 2},
    ),
    "embeddings": ("/v1/embeddings", {"model": "{model}", "input": QUESTION}),
    "speech": ("/v1/audio/speech", {"model": "{model}", "input": QUESTION}),
    "anything": ("/v1/anything/else", {"model": "{model}"}),
}

# What the names in the simulator's brief promise to exist.
PROMISED = [
    *(
        "echo",
        "echo-0",
        "slow-headers-5",
        "slow-first-byte-5",
        "slow-first-event-5",
        "stall-after-3",
        "cut-after-3",
    ),
    *(
        "eof-after-3",
        "no-done",
        "no-finish",
        "error-in-200",
        "error-first-event",
        "error-mid",
        "error-after-preamble",
    ),
    *(
        "html-200",
        "status-500",
        "429-retry-after-7",
        "keepalive-only",
        "keepalive-then-answer",
        "bad-tool-json",
    ),
    *("tool-call", "parallel-tool-calls-no-index", "big-event-8mb", "many-events-20000", "usage-missing"),
    *("usage-each-chunk", "choices-null-usage", "azure-preamble", "not-json-mid", "done-only", "empty-200"),
    *(
        "text-plain-sse",
        "gzip-sse",
        "crlf",
        "sse-for-json",
        "json-for-sse",
        "reasoning",
        "n-choices",
        "logprobs",
    ),
    *(
        "long-silence-40",
        "redirect-302",
        "refuse-keys",
        "context-length",
        "image-ok",
        "image-slow-5",
        "flaky-2",
    ),
    "interval-40",
]


def test_names_promised_are_in_the_table():
    assert [name for name in PROMISED if name != "echo" and choose(name).behaviour.pattern == "echo"] == []


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.example)
def test_row_has_one_line_of_meaning_and_an_example_that_chooses_it(row):
    assert 10 < len(row.meaning) < 110
    assert "\n" not in row.meaning
    assert row.meaning.endswith(".")
    assert choose(row.example).behaviour is row


def test_no_name_belongs_to_two_rows():
    for row in TABLE:
        assert [other.pattern for other in TABLE if other.regex.fullmatch(row.example)] == [row.pattern]


@pytest.mark.parametrize(
    ("model", "pattern", "numbers"),
    [
        ("gpt-5-mini", "echo", ()),
        ("", "echo", ()),
        ("cut-after-12", "cut-after-{n}", (12.0,)),
        ("slow-headers-0.25", "slow-headers-{s}", (0.25,)),
        ("vendor/cut-after-3", "cut-after-{n}", (3.0,)),
        ("flaky-2@second", "flaky-{n}", (2.0,)),
        ("cut-after-", "echo", ()),
        ("xcut-after-3", "echo", ()),
    ],
)
def test_model_name_chooses_behaviour(model, pattern, numbers):
    chosen = choose(model)
    assert (chosen.behaviour.pattern, chosen.numbers) == (pattern, numbers)


def _filled(value: object, model: str) -> object:
    if isinstance(value, dict):
        return {key: _filled(item, model) for key, item in value.items()}
    return model if value == "{model}" else value


def _listen_s(name: str) -> float:
    return 0.5 if name in ENDLESS else 30.0


@pytest.mark.parametrize("kind", REQUESTS)
async def test_every_behaviour_in_this_dialect_ends_without_a_crash(
    simulator: Simulator, kind: str, caplog: pytest.LogCaptureFixture
):
    path, body = REQUESTS[kind]
    names = [QUICK.get(row.example, row.example) for row in TABLE]
    with caplog.at_level(logging.WARNING):
        calls = (
            hear(simulator, path.replace("{model}", name), _filled(body, name), for_s=_listen_s(name))
            for name in names
        )
        answers = dict(zip(names, await asyncio.gather(*calls), strict=True))
    assert [record.getMessage() for record in caplog.records] == []
    assert [name for name, heard in answers.items() if b"The behaviour sent nothing" in heard.body] == []
    assert [name for name, heard in answers.items() if heard.status == 500] == ["status-500"]
    assert [name for name, heard in answers.items() if heard.is_silent and name not in ENDLESS] == []
    async with asyncio.timeout(5):
        while simulator.running_requests:
            await asyncio.sleep(0.005)
