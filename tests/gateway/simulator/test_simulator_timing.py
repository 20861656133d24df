"""Slow and silent: which bytes come when. Bounds are wide, the machine is shared."""

import asyncio

import aiohttp
import pytest

from gateway.simulator import Simulator, running_simulator
from tests.gateway.simulator.talk import QUESTION, chat, hear, hear_chat


async def headers_after(simulator: Simulator, model: str, *, stream: bool = True) -> float:
    """Seconds until the response headers are there."""
    loop = asyncio.get_running_loop()
    async with aiohttp.ClientSession() as client:
        begun = loop.time()
        url = simulator.base_url + "/v1/chat/completions"
        async with client.post(url, json=chat(model, stream=stream)):
            return loop.time() - begun


@pytest.mark.parametrize("stream", [True, False])
async def test_slow_headers_hold_even_the_status_back(simulator: Simulator, stream: bool):
    assert await headers_after(simulator, "slow-headers-0.3", stream=stream) >= 0.3
    heard = await hear_chat(simulator, "slow-headers-0.01", stream=stream)
    assert QUESTION in (heard.text if stream else heard.json["choices"][0]["message"]["content"])


@pytest.mark.parametrize("stream", [True, False])
async def test_slow_first_byte_sends_headers_at_once_and_nothing_more(simulator: Simulator, stream: bool):
    assert await headers_after(simulator, "slow-first-byte-5", stream=stream) < 1
    heard = await hear_chat(simulator, "slow-first-byte-0.3", stream=stream)
    assert heard.first_byte_s is not None
    assert heard.first_byte_s >= 0.3
    assert QUESTION in (heard.text if stream else heard.json["choices"][0]["message"]["content"])


async def test_slow_first_event_sends_comments_meanwhile(simulator: Simulator):
    heard = await hear_chat(simulator, "slow-first-event-0.5")
    assert heard.first_byte_s is not None
    assert heard.first_byte_s < 0.4
    comments = heard.body.partition(b"data:")[0]
    assert comments.count(b": keepalive\n\n") >= 4
    assert (heard.text, heard.is_done) == (QUESTION, True)


async def test_slow_first_event_of_a_whole_answer_is_json_after_blank_lines(simulator: Simulator):
    heard = await hear_chat(simulator, "slow-first-event-0.2", stream=False)
    assert heard.body.startswith(b"\n")
    assert heard.json["choices"][0]["message"]["content"] == QUESTION


@pytest.mark.parametrize("stream", [True, False])
async def test_stall_after_is_silent_with_the_connection_open(simulator: Simulator, stream: bool):
    heard = await hear_chat(simulator, "stall-after-3", stream=stream, for_s=0.4)
    assert (heard.is_silent, heard.error) == (True, None)
    if stream:
        assert (heard.text, heard.finishes) == ("one two three", [])


async def test_comments_after_keeps_bytes_but_no_events_coming(simulator: Simulator):
    heard = await hear_chat(simulator, "comments-after-3", for_s=1.5)
    assert heard.is_silent
    assert heard.text == "one two three"
    assert heard.body.count(b": keepalive\n\n") == 2


async def test_keepalive_only_never_says_anything(simulator: Simulator):
    heard = await hear_chat(simulator, "keepalive-only", for_s=1.5)
    assert heard.is_silent
    assert set(heard.body.split(b"\n\n")) == {b": keepalive", b""}
    assert heard.body.count(b": keepalive") == 2


async def test_keepalive_then_answer_has_comments_between_all_events(simulator: Simulator):
    heard = await hear_chat(simulator, "keepalive-then-answer")
    assert (heard.text, heard.finishes, heard.is_done) == (QUESTION, ["stop"], True)
    assert heard.body.startswith(b": keepalive\n\n")
    assert heard.body.count(b": keepalive\n\n") > len(heard.events)


async def test_interval_paces_every_piece(simulator: Simulator):
    loop = asyncio.get_running_loop()
    begun = loop.time()
    heard = await hear_chat(simulator, "interval-0.1")
    assert loop.time() - begun >= 0.4
    assert heard.first_byte_s is not None
    assert heard.first_byte_s < 0.3
    assert heard.text == QUESTION


async def test_long_silence_comes_after_the_first_piece(simulator: Simulator):
    silent = await hear_chat(simulator, "long-silence-40", for_s=0.3)
    assert (silent.is_silent, silent.text) == (True, "one")
    assert (await hear_chat(simulator, "long-silence-0.1")).text == QUESTION


async def test_image_slow_is_silent_before_the_headers(simulator: Simulator):
    body = {"model": "image-slow-60", "prompt": "a cat"}
    assert (await hear(simulator, "/v1/images/generations", body, for_s=0.2)).status == 0
    quick = await hear(simulator, "/v1/images/generations", {**body, "model": "image-slow-0.1"})
    assert quick.json["data"][0]["b64_json"]


async def test_echo_streams_word_by_word_at_about_30_ms():
    async with running_simulator() as simulator, aiohttp.ClientSession() as client:
        loop = asyncio.get_running_loop()
        url = simulator.base_url + "/v1/chat/completions"
        arrivals = []
        async with client.post(url, json=chat("echo")) as response:
            while await response.content.readany():
                arrivals.append(loop.time())
    assert 0.12 <= arrivals[-1] - arrivals[0] < 1.0
    assert len(arrivals) >= 5


async def test_echo_0_ignores_the_simulators_pace():
    async with running_simulator(pace_s=60) as simulator:
        heard = await hear_chat(simulator, "echo-0", for_s=2)
    assert heard.text == QUESTION


async def test_drip_sends_bytes_long_before_an_event(simulator: Simulator):
    heard = await hear_chat(simulator, "drip-20", for_s=0.4)
    assert heard.is_silent
    assert 3 <= len(heard.body) <= 21
    assert heard.events == []
