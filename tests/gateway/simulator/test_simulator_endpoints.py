"""The endpoints besides chat: each answers in the shape of its provider."""

import base64
import struct
import zlib

import aiohttp
import pytest

from gateway.simulator import Simulator
from gateway.simulator.received import parse_multipart
from tests.gateway.simulator.talk import QUESTION, chat, hear


async def test_completions_stream_and_whole(simulator: Simulator):
    body = {"model": "echo", "prompt": QUESTION}
    whole = await hear(simulator, "/v1/completions", body)
    assert (whole.json["object"], whole.json["choices"][0]["text"]) == ("text_completion", QUESTION)
    streamed = await hear(simulator, "/v1/completions", {**body, "stream": True})
    assert "".join(chunk["choices"][0]["text"] for chunk in streamed.chunks) == QUESTION
    assert streamed.is_done


async def test_embeddings_are_deterministic_in_both_encodings(simulator: Simulator):
    body = {"model": "echo", "input": ["one two", "three"], "dimensions": 4}
    floats = (await hear(simulator, "/v1/embeddings", body)).json
    packed = (await hear(simulator, "/v1/embeddings", {**body, "encoding_format": "base64"})).json
    assert [entry["index"] for entry in floats["data"]] == [0, 1]
    assert floats["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    for as_floats, as_base64 in zip(floats["data"], packed["data"], strict=True):
        vector = struct.unpack("<4f", base64.b64decode(as_base64["embedding"]))
        assert list(vector) == pytest.approx(as_floats["embedding"])
    assert floats["data"][0]["embedding"] != floats["data"][1]["embedding"]


async def test_moderations(simulator: Simulator):
    heard = await hear(simulator, "/v1/moderations", {"input": ["peace", "Violence!"]})
    assert [result["flagged"] for result in heard.json["results"]] == [False, True]


async def test_rerank_puts_the_best_document_first(simulator: Simulator):
    body = {
        "model": "echo",
        "query": "red fox",
        "documents": ["blue sky", "a red fox", "red sky"],
        "top_n": 2,
    }
    heard = await hear(simulator, "/v1/rerank", body)
    assert [result["index"] for result in heard.json["results"]] == [1, 2]


def is_png(data: bytes) -> bool:
    kind, at = b"", 8
    while kind != b"IEND":
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        if struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] != zlib.crc32(kind + content):
            return False
        at += 12 + size
    return data.startswith(b"\x89PNG\r\n\x1a\n") and at == len(data)


async def test_images_are_valid_pngs_as_many_as_asked_for(simulator: Simulator):
    heard = await hear(
        simulator, "/v1/images/generations", {"model": "image-ok", "prompt": "two cats", "n": 2}
    )
    images = [base64.b64decode(entry["b64_json"]) for entry in heard.json["data"]]
    assert [is_png(image) for image in images] == [True, True]
    assert heard.json["usage"]["total_tokens"] == 2 + 32


async def test_images_stream_partials_and_a_completed_one(simulator: Simulator):
    body = {"model": "image-ok", "prompt": "a cat", "stream": True, "partial_images": 2}
    heard = await hear(simulator, "/v1/images/generations", body)
    names = [name for name, _ in heard.events]
    assert names == ["image_generation.partial_image"] * 2 + ["image_generation.completed"]
    assert [chunk.get("partial_image_index") for chunk in heard.chunks] == [0, 1, None]
    assert heard.chunks[-1]["usage"]["output_tokens"] == 16


async def test_image_edit_takes_a_multipart_form_and_remembers_each_part(simulator: Simulator):
    every_byte = bytes(range(256))
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("model", "image-ok")
    form.add_field("prompt", "a café")
    form.add_field("image[]", every_byte, filename="ä.png", content_type="image/png")
    form.add_field("image[]", b"\r\n--x\r\n\r\n", filename="b.png", content_type="image/png")
    form.add_field("mask", b"", filename="m.png", content_type="image/png")
    heard = await hear(simulator, "/v1/images/edits", data=form)
    assert is_png(base64.b64decode(heard.json["data"][0]["b64_json"]))
    received = simulator.requests[0]
    assert (received.model, received.json["prompt"]) == ("image-ok", "a café")
    files = [(part.name, part.filename, part.body) for part in received.parts[2:]]
    assert files == [
        ("image[]", "ä.png", every_byte),
        ("image[]", "b.png", b"\r\n--x\r\n\r\n"),
        ("mask", "m.png", b""),
    ]


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b"--x\r\n\r\n\r\n--x--"),
        ("multipart/form-data; boundary=x", b""),
        ("multipart/form-data; boundary=x", b"--x"),
        ("multipart/form-data; boundary=x", b"--x\r\nno blank line\r\n--x--"),
    ],
)
def test_malformed_forms_have_no_parts(content_type: str, body: bytes):
    assert parse_multipart(content_type, body) == []


async def test_multipart_model_chooses_the_behaviour_too(simulator: Simulator):
    form = aiohttp.FormData({"model": "status-503"})
    form.add_field("image", b"x", filename="a.png")
    assert (await hear(simulator, "/v1/images/edits", data=form)).status == 503


@pytest.mark.parametrize(
    ("wanted", "kind"), [(None, "audio/mpeg"), ("wav", "audio/wav"), ("pcm", "audio/pcm")]
)
async def test_speech_is_every_byte_value_with_its_own_content_type(simulator: Simulator, wanted, kind):
    body = {"model": "tts", "input": "hello", "voice": "alloy", "response_format": wanted}
    heard = await hear(simulator, "/v1/audio/speech", body)
    assert heard.headers["content-type"] == kind
    assert heard.body == bytes(range(256)) * 16


async def test_transcription_of_a_file(simulator: Simulator):
    form = aiohttp.FormData({"model": "echo", "stream": "true"})
    form.add_field("file", b"12345", filename="a.wav", content_type="audio/wav")
    heard = await hear(simulator, "/v1/audio/transcriptions", data=form)
    assert heard.chunks[-1] == {
        "type": "transcript.text.done",
        "text": "A recording of 5 bytes in 1 file(s).",
    }


async def test_responses_number_their_events_and_open_and_close_everything(simulator: Simulator):
    heard = await hear(simulator, "/v1/responses", {"model": "echo", "input": QUESTION, "stream": True})
    names = [name for name, _ in heard.events]
    assert names[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert names[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [chunk["type"] for chunk in heard.chunks] == names
    assert [chunk["sequence_number"] for chunk in heard.chunks] == [*range(len(names))]
    assert "".join(c["delta"] for c in heard.chunks if c["type"] == "response.output_text.delta") == QUESTION
    final = heard.chunks[-1]["response"]
    assert (final["status"], final["usage"]["total_tokens"]) == ("completed", 10)
    assert final["output"][0]["content"][0]["text"] == QUESTION


async def test_stored_responses_can_be_read_and_deleted(simulator: Simulator):
    made = (await hear(simulator, "/v1/responses", {"model": "echo", "input": "hi"})).json
    path = f"/v1/responses/{made['id']}"
    assert (await hear(simulator, path, method="GET")).json == made
    assert (await hear(simulator, path, method="DELETE")).json["deleted"] is True
    assert (await hear(simulator, path, method="GET")).status == 404


async def test_stored_response_is_there_while_it_still_streams(simulator: Simulator):
    body = {"model": "long-silence-40", "input": QUESTION, "stream": True, "store": False}
    await hear(simulator, "/v1/responses", body, for_s=0.2)
    body = {"model": "interval-40", "input": QUESTION, "stream": True}
    heard = await hear(simulator, "/v1/responses", body, for_s=0.2)
    name = heard.chunks[0]["response"]["id"]
    assert (await hear(simulator, f"/v1/responses/{name}", method="GET")).status == 200


async def test_anthropic_stream_is_well_formed(simulator: Simulator):
    heard = await hear(simulator, "/v1/messages", chat("reasoning", max_tokens=99))
    assert [chunk["type"] for chunk in heard.chunks] == [name for name, _ in heard.events]
    assert heard.events[0][0] == "message_start"
    assert heard.events[-1][0] == "message_stop"
    starts = [c["index"] for c in heard.chunks if c["type"] == "content_block_start"]
    stops = [c["index"] for c in heard.chunks if c["type"] == "content_block_stop"]
    assert starts == stops == [0, 1]
    kinds = [c["delta"]["type"] for c in heard.chunks if c["type"] == "content_block_delta"]
    assert kinds == ["thinking_delta"] * 9 + ["signature_delta"] + ["text_delta"] * 5


async def test_anthropic_tool_use(simulator: Simulator):
    tools = [{"name": "book", "input_schema": {"properties": {"city": {"type": "string"}}}}]
    heard = await hear(simulator, "/v1/messages", chat("tool-call", stream=False, tools=tools))
    (block,) = heard.json["content"]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "book", {"city": "Paris"})
    assert heard.json["stop_reason"] == "tool_use"


async def test_openai_counts_input_tokens(simulator: Simulator):
    asked = {"model": "echo", "input": "a b c", "instructions": "be brief", "stream": True}
    heard = await hear(simulator, "/v1/responses/input_tokens", asked)
    assert heard.json == {"object": "response.input_tokens", "input_tokens": 5}


async def test_anthropic_count_tokens(simulator: Simulator):
    heard = await hear(simulator, "/v1/messages/count_tokens", chat("echo", system="be brief"))
    assert heard.json == {"input_tokens": 7}


@pytest.mark.parametrize("version", ["v1", "v1beta"])
async def test_gemini_whole_and_streamed(simulator: Simulator, version: str):
    body = {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}
    whole = await hear(simulator, f"/{version}/models/echo:generateContent", body)
    assert whole.json["candidates"][0]["content"]["parts"] == [{"text": QUESTION}]
    assert whole.json["usageMetadata"]["totalTokenCount"] == 10
    streamed = await hear(simulator, f"/{version}/models/echo:streamGenerateContent?alt=sse", body)
    parts = [chunk["candidates"][0]["content"]["parts"][0]["text"] for chunk in streamed.chunks]
    assert "".join(parts) == QUESTION
    counts = [chunk["usageMetadata"]["candidatesTokenCount"] for chunk in streamed.chunks]
    assert counts == [1, 2, 3, 4, 5, 5]
    assert [c["candidates"][0].get("finishReason") for c in streamed.chunks] == [None] * 5 + ["STOP"]
    array = await hear(simulator, f"/{version}/models/echo:streamGenerateContent", body)
    assert len(array.json) == 6


async def test_gemini_model_with_a_slash_in_its_name_and_count_and_embed(simulator: Simulator):
    body = {"contents": [{"parts": [{"text": QUESTION}]}]}
    assert (await hear(simulator, "/v1beta/models/tuned/status-503:generateContent", body)).status == 503
    assert (await hear(simulator, "/v1beta/models/echo:countTokens", body)).json == {"totalTokens": 5}
    embedding = await hear(
        simulator, "/v1beta/models/echo:embedContent", {"content": {"parts": [{"text": "x"}]}}
    )
    assert len(embedding.json["embedding"]["values"]) == 8


@pytest.mark.parametrize(
    "path",
    ["/openai/deployments/status-503/chat/completions?api-version=2025-01-01", "/openai/v1/chat/completions"],
)
async def test_azure_paths(simulator: Simulator, path: str):
    heard = await hear(simulator, path, chat("echo"))
    assert heard.status == (503 if "status-503" in path else 200)


async def test_models_in_three_forms(simulator: Simulator):
    openai = (await hear(simulator, "/v1/models", method="GET")).json
    assert (openai["object"], openai["data"][0]["id"]) == ("list", "echo")
    anthropic = await hear(simulator, "/v1/models", method="GET", headers={"anthropic-version": "2023-06-01"})
    assert anthropic.json["data"][0]["type"] == "model"
    gemini = await hear(simulator, "/v1beta/models", method="GET")
    assert gemini.json["models"][0]["name"] == "models/echo"


@pytest.mark.parametrize("name", ["echo", "a/b", "a%2Fb"])
async def test_one_model_is_found_whatever_its_name(simulator: Simulator, name: str):
    heard = await hear(simulator, f"/v1/models/{name}", method="GET")
    assert (heard.status, heard.json["id"]) == (200, name.replace("%2F", "/"))


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_other_paths_say_what_arrived(simulator: Simulator, method: str):
    heard = await hear(
        simulator,
        "/v1/any%20thing/x?a=1&b=%2F",
        method=method,
        data=b"\x00\xff",
        headers={"Content-Type": "x/y"},
    )
    assert heard.json == {
        "method": method,
        "path": "/v1/any thing/x",
        "raw_path": "/v1/any%20thing/x?a=1&b=%2F",
        "query": {"a": "1", "b": "/"},
        "content_type": "x/y",
        "body_size": 2,
    }


async def test_mirror_gives_the_bytes_back(simulator: Simulator):
    every_byte = bytes(range(256))
    heard = await hear(
        simulator, "/v1/mirror?mirror=1", data=every_byte, headers={"Content-Type": "application/x-odd"}
    )
    assert (heard.body, heard.headers["content-type"]) == (every_byte, "application/x-odd")


async def test_head_has_no_body(simulator: Simulator):
    heard = await hear(simulator, "/v1/models", method="HEAD")
    assert (heard.status, heard.body, heard.error) == (200, b"", None)


async def test_paths_outside_are_404(simulator: Simulator):
    for path in ("/", "/v2/chat/completions", "/v1x/models"):
        assert (await hear(simulator, path, method="GET")).status == 404


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"model": 5, "messages": "x", "tools": [1], "n": -1}']
)
@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1beta/models/x:generateContent",
        "/v1/embeddings",
    ],
)
async def test_nonsense_is_answered_and_crashes_nothing(simulator: Simulator, path: str, body: bytes):
    heard = await hear(simulator, path, data=body, headers={"Content-Type": "application/json"})
    assert heard.status == 200
