"""Each wrong ending is exactly the one its name says, and nothing else is wrong with it."""

import pytest

from gateway.simulator import Simulator
from tests.gateway.simulator.talk import QUESTION, Heard, chat, hear, hear_chat, hear_raw


def pieces(heard: Heard) -> int:
    return sum(1 for chunk in heard.chunks for c in chunk["choices"] if c["delta"].get("content"))


@pytest.mark.parametrize("count", [1, 3, 9])
async def test_cut_after_resets_the_connection_after_so_many_pieces(simulator: Simulator, count: int):
    heard = await hear_chat(simulator, f"cut-after-{count}")
    assert heard.error == "ClientPayloadError"
    assert (pieces(heard), heard.finishes, heard.is_done) == (count, [], False)


@pytest.mark.parametrize(
    ("model", "end"),
    [
        ("cut-after-0", "RST"),
        ("cut-after-3", "RST"),
        ("finish-then-reset", "RST"),
        ("reset-before-headers", "RST"),
        ("fin-after-0", "FIN"),
        ("fin-after-3", "FIN"),
        ("close-before-headers", "FIN"),
        ("bad-status-line", "FIN"),
        ("bad-chunk", "FIN"),
        ("short-body", "FIN"),
        ("close-delimited", "FIN"),
        ("hang-up", "FIN"),
        ("eof-after-3", "open"),
        ("stall-after-3", "open"),
    ],
)
async def test_connection_ends_as_the_name_says(simulator: Simulator, model: str, end: str):
    for_s = 0.5 if end == "open" else 5.0
    assert (await hear_raw(simulator, chat(model), for_s=for_s))[1] == end


async def test_cut_after_0_resets_right_behind_the_headers(simulator: Simulator):
    heard = await hear_chat(simulator, "cut-after-0")
    assert (heard.status, heard.body, heard.error) == (200, b"", "ClientPayloadError")


async def test_cut_of_a_whole_answer_comes_in_the_middle_of_the_body(simulator: Simulator):
    whole = await hear_chat(simulator, "echo", stream=False)
    heard = await hear_chat(simulator, "cut-after-3", stream=False)
    assert heard.error == "ClientPayloadError"
    assert 0 < len(heard.body) < len(whole.body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", chat("cut-after-2", max_tokens=9)),
        ("/v1/responses", {"model": "cut-after-2", "input": QUESTION, "stream": True}),
        (
            "/v1beta/models/cut-after-2:streamGenerateContent?alt=sse",
            {"contents": [{"parts": [{"text": QUESTION}]}]},
        ),
    ],
)
async def test_cut_after_works_in_every_dialect(simulator: Simulator, path: str, body: dict):
    heard = await hear(simulator, path, body)
    assert heard.error == "ClientPayloadError"
    assert b" two" in heard.body
    assert b" three" not in heard.body


async def test_eof_after_ends_cleanly_without_finish(simulator: Simulator):
    heard = await hear_chat(simulator, "eof-after-3")
    assert (heard.error, pieces(heard), heard.finishes, heard.is_done) == (None, 3, [], False)


async def test_fin_after_closes_inside_the_chunked_body(simulator: Simulator):
    heard = await hear_chat(simulator, "fin-after-3")
    assert (heard.error, pieces(heard)) == ("ClientPayloadError", 3)


async def test_no_done_lacks_only_the_terminal(simulator: Simulator):
    heard = await hear_chat(simulator, "no-done")
    assert (heard.error, heard.text, heard.finishes, heard.is_done) == (None, QUESTION, ["stop"], False)


async def test_no_done_for_anthropic_lacks_message_stop(simulator: Simulator):
    heard = await hear(simulator, "/v1/messages", chat("no-done", max_tokens=9))
    assert [name for name, _ in heard.events][-1] == "message_delta"


async def test_no_finish_has_the_terminal_but_no_reason(simulator: Simulator):
    heard = await hear_chat(simulator, "no-finish")
    assert (heard.text, heard.finishes, heard.is_done) == (QUESTION, [], True)
    whole = await hear_chat(simulator, "no-finish", stream=False)
    assert whole.json["choices"][0]["finish_reason"] is None


async def test_double_done(simulator: Simulator):
    heard = await hear_chat(simulator, "double-done")
    assert [data for _, data in heard.events][-3:].count("[DONE]") == 2


async def test_finish_then_reset(simulator: Simulator):
    heard = await hear_chat(simulator, "finish-then-reset", stream_options={"include_usage": True})
    assert (heard.error, heard.finishes, heard.usages, heard.is_done) == (
        "ClientPayloadError",
        ["stop"],
        [],
        False,
    )


async def test_finish_then_silence(simulator: Simulator):
    heard = await hear_chat(simulator, "finish-then-silence", for_s=0.3)
    assert (heard.is_silent, heard.finishes, heard.is_done) == (True, ["stop"], False)


async def test_preamble_only(simulator: Simulator):
    heard = await hear_chat(simulator, "preamble-only")
    assert heard.error is None
    (chunk,) = heard.chunks
    assert chunk["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}


async def test_preamble_only_for_responses(simulator: Simulator):
    heard = await hear(
        simulator, "/v1/responses", {"model": "preamble-only", "input": QUESTION, "stream": True}
    )
    assert [name for name, _ in heard.events][:2] == ["response.created", "response.in_progress"]
    assert b"delta" not in heard.body
    assert b"completed" not in heard.body


async def test_done_only(simulator: Simulator):
    assert (await hear_chat(simulator, "done-only")).body == b"data: [DONE]\n\n"
    assert (await hear_chat(simulator, "done-only", stream=False)).body == b""


@pytest.mark.parametrize(("stream", "kind"), [(True, "text/event-stream"), (False, "application/json")])
async def test_empty_200(simulator: Simulator, stream: bool, kind: str):
    heard = await hear_chat(simulator, "empty-200", stream=stream)
    assert (heard.status, heard.body, heard.error) == (200, b"", None)
    assert heard.headers["content-type"].startswith(kind)


async def test_unterminated_done(simulator: Simulator):
    heard = await hear_chat(simulator, "unterminated-done")
    assert heard.body.endswith(b"\n\ndata: [DONE]\n")
    assert heard.finishes == ["stop"]


async def test_truncated_event_ends_inside_json(simulator: Simulator):
    heard = await hear_chat(simulator, "truncated-event")
    assert (heard.error, heard.text) == (None, "one two three four")
    rest = heard.body.rpartition(b"\n\n")[2]
    assert rest.startswith(b'data: {"id"')
    assert not rest.endswith(b"}")
