"""The protocol class: limits and timeouts of what a client may send, and how a connection ends."""

import asyncio
import contextlib
import socket
import struct
import time
import tracemalloc

import pytest

from gateway.front import protocol as front_protocol
from gateway.front import sending
from gateway.front import server as gateway_server
from tests.flows import views
from tests.flows.raw_http import ask, parse, read_answer, request_bytes
from tests.flows.server import RunningServer, running_server


async def read_until_closed(reader: asyncio.StreamReader, within_s: float = 5.0) -> bytes:
    """What came before the end, however the connection ended. Fails when it does not end."""
    out = b""
    async with asyncio.timeout(within_s):
        while True:
            try:
                part = await reader.read(65_536)
            except ConnectionError:
                return out
            if not part:
                return out
            out += part


async def until(condition, within_s: float = 5.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.005)


# Heads


@pytest.mark.parametrize(
    "raw",
    [
        request_bytes("GET", "/v1/sync?" + "q" * 70_000),
        request_bytes("GET", "/v1/sync", ("X-Big", "v" * 70_000)),
        request_bytes("GET", "/v1/sync", *[(f"X-{n}", "v" * 100) for n in range(700)]),
    ],
    ids=["target", "one header", "many headers"],
)
async def test_head_over_64_kib_is_431(front: RunningServer, raw: bytes) -> None:
    answer = await ask(front, raw)
    assert answer.status == 431
    assert answer.error["code"] == "headers_too_large"
    assert answer.header("connection") == "close"


async def test_head_just_below_the_limit_is_served(front: RunningServer) -> None:
    raw = request_bytes("GET", "/v1/sync", ("X-Big", "v" * 64_000))
    assert (await ask(front, raw)).status == 200


async def test_header_that_never_ends_is_cut_at_the_limit(
    front: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parser would collect it for ever: nothing is told to us before the line is whole."""
    monkeypatch.setattr(front_protocol, "LINGER_S", 0.2)
    reader, writer = await front.connect()
    writer.write(b"GET /v1/sync HTTP/1.1\r\nX-Endless: ")
    sent = 0
    while sent < 2_000_000 and not writer.is_closing():
        writer.write(b"v" * 16_384)
        sent += 16_384
        try:
            await writer.drain()
        except ConnectionError:
            break
        await asyncio.sleep(0.001)
    assert (await read_until_closed(reader)).startswith(b"HTTP/1.1 431") or sent < 2_000_000
    await until(lambda: not front.uvicorn.server_state.connections)
    writer.close()


async def test_half_sent_head_is_ended(front_with_short_timers: RunningServer) -> None:
    reader, writer = await front_with_short_timers.connect()
    writer.write(b"GET /v1/sync HTTP/1.1\r\nHost: loc")
    answer = parse(await read_until_closed(reader))
    assert (answer.status, answer.error["code"]) == (408, "request_timeout")
    writer.close()


async def test_silent_connection_is_ended(front_with_short_timers: RunningServer) -> None:
    reader, writer = await front_with_short_timers.connect()
    assert await read_until_closed(reader) == b""
    writer.close()


async def test_half_sent_second_head_is_ended(front_with_short_timers: RunningServer) -> None:
    reader, writer = await front_with_short_timers.connect()
    writer.write(request_bytes("GET", "/v1/sync", close=False))
    await read_answer(reader)
    writer.write(b"GET /v1")
    assert (await read_until_closed(reader)).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_blank_lines_do_not_hold_a_connection(front_with_short_timers: RunningServer) -> None:
    """They stop the keep-alive timer although no request begins."""
    reader, writer = await front_with_short_timers.connect()
    writer.write(request_bytes("GET", "/v1/sync", close=False))
    await read_answer(reader)
    writer.write(b"\r\n")
    assert await read_until_closed(reader) == b""
    writer.close()


async def test_not_http_is_400_in_json(front: RunningServer) -> None:
    answer = await ask(front, b"\x16\x03\x01 this is TLS\r\n\r\n")
    assert (answer.status, answer.error["code"]) == (400, "bad_request")


async def test_idle_connection_is_closed_after_keep_alive(stub_wiring: object) -> None:
    async with running_server(views.stub_application(), timeout_keep_alive=0.2) as server:
        reader, writer = await server.connect()
        writer.write(request_bytes("GET", "/v1/sync", close=False))
        await read_answer(reader)
        assert await read_until_closed(reader, 2) == b""
        writer.close()


async def test_keep_alive_expiry_drops_a_client_that_left_bytes_unread(stub_wiring: object) -> None:
    async with running_server(views.stub_application(), timeout_keep_alive=0.2) as server:
        client = deaf_client(server)
        client.sendall(request_bytes("GET", "/v1/big?size=400000", close=False))
        await until(lambda: not server.uvicorn.server_state.connections)
        client.close()


# Pipelining, upgrades


async def test_pipelining_is_broken_off(front: RunningServer) -> None:
    reader, writer = await front.connect()
    writer.write(request_bytes("GET", "/v1/wait", close=False))
    await until(lambda: "waiting" in views.heard)
    writer.write(request_bytes("GET", "/v1/sync", close=False))
    assert await read_until_closed(reader) == b""
    await until(lambda: views.heard == ["waiting", "cancelled"])
    writer.close()


async def test_two_requests_in_one_packet_are_broken_off(front: RunningServer) -> None:
    reader, writer = await front.connect()
    writer.write(request_bytes("GET", "/v1/wait", close=False) * 2)
    assert await read_until_closed(reader) == b""
    await until(lambda: not front.uvicorn.server_state.tasks)
    writer.close()


async def test_lying_content_length_is_bounded(front: RunningServer) -> None:
    """More bytes than announced are the next request, and those are no HTTP."""
    reader, writer = await front.connect()
    writer.write(
        request_bytes("POST", "/v1/echo", ("Content-Length", "5"), close=False) + b"hello" + b"x" * 200_000
    )
    got = await read_until_closed(reader)
    assert got.count(b"HTTP/1.1 ") <= 1, "nothing behind the announced length is served"
    await until(lambda: not front.uvicorn.server_state.connections)
    writer.close()


H2C = (("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAARAAAAA"))
"""What curl --http2 and Java's HttpClient add to their first request on http://."""


async def test_h2c_upgrade_is_served_as_plain_http(front: RunningServer) -> None:
    reader, writer = await front.connect()
    for _ in range(2):
        writer.write(request_bytes("GET", "/v1/sync", *H2C, close=False))
        answer = await read_answer(reader)
        assert (answer.status, answer.body) == (200, b"sync")
        assert answer.header("connection") is None, "the connection goes on"
    writer.close()


@pytest.mark.parametrize("packet", [1, 7, 100, 1_000_000])
async def test_h2c_upgrade_keeps_its_body(front: RunningServer, packet: int) -> None:
    """However it is cut into packets, with a length or in chunks, and the next request is another."""
    reader, writer = await front.connect()
    chunks = request_bytes("POST", "/v1/echo", *H2C, ("Transfer-Encoding", "chunked"), close=False)
    for raw in (
        request_bytes("POST", "/v1/echo", *H2C, body=b"hello", close=False),
        chunks + b"5\r\nhello\r\n0\r\n\r\n",
        request_bytes("GET", "/v1/sync", close=False),
    ):
        for start in range(0, len(raw), packet):
            writer.write(raw[start : start + packet])
            await writer.drain()
            await asyncio.sleep(0)
        answer = await read_answer(reader)
        assert (answer.status, answer.body) == (200, b"hello" if b"POST" in raw else b"sync")
    writer.close()


async def test_h2c_upgrade_with_a_large_body(front: RunningServer) -> None:
    body = bytes(range(256)) * 3000
    reader, writer = await front.connect()
    writer.write(request_bytes("POST", "/v1/echo", *H2C, body=body, close=False))
    assert (await read_answer(reader)).body == body
    writer.close()


async def test_h2c_upgrade_keeps_the_rest_of_the_connection_header(front: RunningServer) -> None:
    wishes = (("Connection", "close, Upgrade, HTTP2-Settings, X-Own"), *H2C[1:])
    answer = await ask(front, request_bytes("POST", "/v1/seen/x", *wishes, body=b"hello", close=False))
    assert answer.header("connection") == "close"
    headers = dict(answer.json()["headers"])
    assert headers["connection"] == "close, X-Own"
    assert not {"upgrade", "http2-settings"} & set(headers)
    assert answer.json()["body_length"] == 5


async def test_h2c_head_over_64_kib_is_431(front: RunningServer) -> None:
    raw = request_bytes("POST", "/v1/echo", *H2C, ("X-Big", "v" * 70_000), body=b"hello")
    assert (await ask(front, raw)).status == 431


@pytest.mark.parametrize("target", ["example.com:443", "/v1/sync"])
async def test_connect_is_refused(front: RunningServer, target: str) -> None:
    assert (await ask(front, request_bytes("CONNECT", target, close=False))).status in {400, 404, 405}


# Bodies


async def test_body_over_the_limit_is_413_before_it_is_sent(front: RunningServer) -> None:
    reader, writer = await front.connect()
    writer.write(request_bytes("POST", "/v1/echo", ("Content-Length", "200000000"), close=False))
    answer = await read_answer(reader)
    assert (answer.status, answer.error["code"]) == (413, "request_too_large")
    assert answer.header("connection") == "close"
    writer.close()


async def test_chunked_body_over_the_limit_is_413_while_it_is_sent(front: RunningServer) -> None:
    reader, writer = await front.connect()
    writer.write(request_bytes("POST", "/v1/echo", ("Transfer-Encoding", "chunked"), close=False))
    chunk = b"%x\r\n%s\r\n" % (65_536, b"x" * 65_536)
    for _ in range(17):
        writer.write(chunk)
    answer = await read_answer(reader)
    assert (answer.status, answer.error["code"]) == (413, "request_too_large")
    writer.close()


async def test_client_that_sends_everything_first_still_reads_its_413(front: RunningServer) -> None:
    """Closing on unread bytes would reset the connection under the answer."""
    answer = await ask(front, request_bytes("POST", "/v1/echo", body=b"x" * 5_000_000))
    assert answer.status == 413


async def test_refused_upload_that_goes_on_for_ever_is_cut(
    front: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "LINGER_S", 0.2)
    reader, writer = await front.connect()
    writer.write(request_bytes("POST", "/v1/echo", ("Content-Length", "200000000"), close=False))
    assert (await read_until_closed(reader)).startswith(b"HTTP/1.1 413")
    await until(lambda: not front.uvicorn.server_state.connections)
    writer.close()


async def test_stalled_body_is_ended(front: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_protocol, "BODY_IDLE_TIMEOUT_S", 0.2)
    reader, writer = await front.connect()
    writer.write(request_bytes("POST", "/v1/echo", ("Content-Length", "10"), close=False) + b"abc")
    assert await read_until_closed(reader) == b""
    await until(lambda: not front.uvicorn.server_state.tasks)
    writer.close()


async def test_trickled_body_is_ended(front: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte in time, and never an end."""
    monkeypatch.setattr(front_protocol, "BODY_TOTAL_TIMEOUT_S", 0.3)
    _, writer = await front.connect()
    writer.write(request_bytes("POST", "/v1/echo", ("Content-Length", "1000"), close=False))
    started = time.monotonic()
    while not writer.is_closing() and time.monotonic() - started < 5:
        writer.write(b"x")
        await asyncio.sleep(0.05)
    assert 0.2 < time.monotonic() - started < 1.5
    await until(lambda: not front.uvicorn.server_state.tasks)
    writer.close()


async def test_the_next_body_on_a_connection_has_its_own_deadline(
    front: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_protocol, "BODY_TOTAL_TIMEOUT_S", 0.4)
    reader, writer = await front.connect()
    for _ in range(3):
        writer.write(request_bytes("POST", "/v1/echo", ("Content-Length", "10"), close=False) + b"abc")
        await asyncio.sleep(0.25)
        writer.write(b"defghij")
        assert (await read_answer(reader)).body == b"abcdefghij"
    writer.close()


async def test_view_that_forgot_to_read_the_body_does_not_find_it_empty(front: RunningServer) -> None:
    assert (await ask(front, request_bytes("POST", "/v1/forgotten", body=b"hello"))).status == 500


async def test_refused_upload_is_not_kept(front: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answered from the head; what is sent all the same is thrown away as it comes."""
    monkeypatch.setattr(sending, "LINGER_S", 0.5)
    piece = b"x" * 65_536
    heard = []

    async def upload() -> None:
        reader, writer = await front.connect()
        length = ("Content-Length", str(60_000_000))
        writer.write(request_bytes("POST", "/v1/closed", length, close=False))
        heard.append((await asyncio.wait_for(read_answer(reader), 1)).status)
        with contextlib.suppress(ConnectionError):
            for _ in range(60_000_000 // len(piece)):
                writer.write(piece)
                await writer.drain()
        writer.close()

    tracemalloc.start()
    try:
        await asyncio.gather(*(upload() for _ in range(4)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert heard == [401] * 4
    assert peak < 8_000_000


@pytest.mark.parametrize("path", ["/v1/closed", "/v1/nope", "/v1/wait"], ids=["401", "404", "405"])
@pytest.mark.parametrize(
    "announced", [("Content-Length", "60000000"), ("Transfer-Encoding", "chunked")], ids=["length", "chunked"]
)
async def test_refusal_comes_before_the_body(
    front: RunningServer, path: str, announced: tuple[str, str]
) -> None:
    reader, writer = await front.connect()
    writer.write(request_bytes("POST", path, announced, ("Expect", "100-continue"), close=False))
    answer = await asyncio.wait_for(read_answer(reader), 1)
    assert answer.status in {401, 404, 405}
    assert answer.header("connection") == "close"
    writer.close()


async def test_expect_100_continue(front: RunningServer) -> None:
    reader, writer = await front.connect()
    writer.write(request_bytes("POST", "/v1/echo", ("Content-Length", "5"), ("Expect", "100-continue")))
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"hello")
    assert parse(await reader.read()).body == b"hello"
    writer.close()


@pytest.mark.parametrize(("path", "length", "status"), [("/v1/echo", 200_000_000, 413), ("/v1/nope", 5, 404)])
async def test_expectation_that_fails_gets_the_final_status_only(
    front: RunningServer, path: str, length: int, status: int
) -> None:
    reader, writer = await front.connect()
    writer.write(
        request_bytes("POST", path, ("Content-Length", str(length)), ("Expect", "100-continue"), close=False)
    )
    answer = await read_answer(reader)
    assert answer.status == status
    assert answer.header("connection") == "close", "whether the body follows is not known"
    writer.close()


# HTTP/1.0


async def test_http_1_0_stream_is_close_delimited(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("GET", "/v1/tick?count=3", version="1.0", close=False))
    assert answer.header("transfer-encoding") is None
    assert answer.header("connection") == "close"
    assert answer.body == b"x" * 15


async def test_http_1_0_whole_answer_has_its_length(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("POST", "/v1/echo", body=b"hello", version="1.0", close=False))
    assert (answer.header("content-length"), answer.body) == ("5", b"hello")


async def test_http_1_0_head_and_204(front: RunningServer) -> None:
    for method, path in (("HEAD", "/v1/tick"), ("GET", "/v1/empty")):
        answer = await ask(front, request_bytes(method, path, version="1.0", close=False))
        assert answer.body == b""
        assert answer.header("transfer-encoding") is None


# Clients that do not read


def deaf_client(server: RunningServer) -> socket.socket:
    """Connected, with a small receive buffer, and nobody reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((server.host, server.port))
    return client


async def test_whole_answer_nobody_reads_meets_the_write_deadline(
    front: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WRITE_DEADLINE_S", 0.3)
    client = deaf_client(front)
    client.sendall(request_bytes("GET", "/v1/big?size=20000000", close=False))
    await until(lambda: front.uvicorn.server_state.tasks)
    await until(lambda: not front.uvicorn.server_state.tasks)
    await until(lambda: not front.uvicorn.server_state.connections)
    with pytest.raises(ConnectionResetError):
        while client.recv(65_536):
            pass
    client.close()


async def test_last_bytes_nobody_reads_do_not_hold_a_closing_connection(
    front: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_protocol, "CLOSE_TIMEOUT_S", 0.3)
    client = deaf_client(front)
    client.sendall(request_bytes("GET", "/v1/big?size=400000", close=True))
    await until(lambda: not front.uvicorn.server_state.connections)
    client.close()


async def test_slow_but_steady_reader_gets_everything(
    front: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WRITE_DEADLINE_S", 0.4)
    client = socket.create_connection((front.host, front.port), timeout=5)
    size = 12_000_000
    client.sendall(request_bytes("GET", f"/v1/big?size={size}"))

    def read_slowly() -> int:
        got = 0
        while part := client.recv(131_072):
            got += len(part)
            time.sleep(0.01)
        return got

    started = time.monotonic()
    assert await asyncio.to_thread(read_slowly) > size
    assert time.monotonic() - started > 0.4, "longer than one write's deadline in all"
    client.close()


async def test_connection_knows_what_is_unsent_and_unacknowledged(front: RunningServer) -> None:
    """A reader leaves nothing; one that does not read leaves bytes in the kernel or with us."""
    await ask(front, request_bytes("GET", "/v1/tick?count=2"))
    assert views.heard[-1] == "done 0 0"
    views.heard.clear()
    client = deaf_client(front)
    client.sendall(request_bytes("GET", "/v1/tick?count=6&size=30000"))
    await until(lambda: any(line.startswith("done") for line in views.heard))
    unsent, unacknowledged = map(int, views.heard[-1].split()[1:])
    assert unsent + unacknowledged > 50_000
    client.close()


async def test_aborting_frees_the_kernels_buffer_too(front: RunningServer) -> None:
    """A plain abort would leave the socket in FIN-WAIT with its bytes: the client must see a reset."""
    client = deaf_client(front)
    client.sendall(request_bytes("GET", "/v1/tick?count=1000&size=60000&pause_ms=0"))
    await until(lambda: views.heard)
    await asyncio.sleep(0.2)
    for protocol in list(front.uvicorn.server_state.connections):
        protocol.abort()
        protocol.abort()
    await until(lambda: not front.uvicorn.server_state.connections)
    with pytest.raises(ConnectionResetError):
        while client.recv(65_536):
            pass
    client.close()


async def test_listening_socket_gives_connections_their_options(front: RunningServer) -> None:
    _, writer = await front.connect()
    await until(lambda: front.uvicorn.server_state.connections)
    protocol = next(iter(front.uvicorn.server_state.connections))
    sock = protocol.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 2 * gateway_server.SEND_BUFFER_BYTES
    writer.close()


async def test_reset_by_the_client_leaves_nothing(front: RunningServer) -> None:
    client = socket.create_connection((front.host, front.port))
    client.sendall(request_bytes("GET", "/v1/wait"))
    await until(lambda: "waiting" in views.heard)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    await until(lambda: views.heard == ["waiting", "cancelled"])
    await until(lambda: not front.uvicorn.server_state.connections)


@pytest.fixture
async def front_with_short_timers(monkeypatch: pytest.MonkeyPatch, front: RunningServer) -> RunningServer:
    monkeypatch.setattr(front_protocol, "HEAD_TIMEOUT_S", 0.3)
    return front
