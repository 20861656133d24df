"""What a view gets of a request, and how its answer goes out: Django's ASGI tests, done for the slim handler."""

import asyncio

import pytest

from tests.flows.raw_http import ask, read_answer, request_bytes, unchunked
from tests.flows.server import RunningServer


async def test_body_comes_back_byte_exact(front: RunningServer) -> None:
    body = bytes(range(256)) * 3
    answer = await ask(front, request_bytes("POST", "/v1/echo", body=body))
    assert (answer.status, answer.body) == (200, body)
    assert answer.header("content-length") == str(len(body))


async def test_body_beyond_djangos_own_limit_is_read(
    front: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django.conf.settings.DATA_UPLOAD_MAX_MEMORY_SIZE", 100)
    body = b"z" * 900_000
    answer = await ask(front, request_bytes("POST", "/v1/echo", body=body))
    assert answer.body == body


async def test_chunked_body_is_joined(front: RunningServer) -> None:
    head = request_bytes("POST", "/v1/echo", ("Transfer-Encoding", "chunked"))
    answer = await ask(front, head + b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
    assert answer.body == b"hello world"


async def test_body_in_many_small_pieces(front: RunningServer) -> None:
    reader, writer = await front.connect()
    body = b"abcdefghij"
    writer.write(request_bytes("POST", "/v1/echo", ("Content-Length", "10")))
    for index in range(len(body)):
        writer.write(body[index : index + 1])
        await writer.drain()
        await asyncio.sleep(0.002)
    assert (await reader.read()).endswith(body)
    writer.close()


async def test_request_without_a_body(front: RunningServer) -> None:
    seen = (await ask(front, request_bytes("GET", "/v1/seen/x"))).json()
    assert seen["body_length"] == 0
    assert seen["cookies"] == {}


async def test_headers_keep_order_repeats_and_underscores(front: RunningServer) -> None:
    raw = request_bytes(
        "GET", "/v1/seen/x", ("X-One", "1"), ("x_two", "2"), ("X-One", "3"), ("X-Latin", "\xe9")
    )
    seen = (await ask(front, raw)).json()
    kept = [pair for pair in seen["headers"] if pair[0].startswith("x")]
    assert kept == [["x-one", "1"], ["x_two", "2"], ["x-one", "3"], ["x-latin", "é"]]


async def test_query_keeps_repeats(front: RunningServer) -> None:
    seen = (await ask(front, request_bytes("GET", "/v1/seen/x?a=1&a=2&b=%C3%A9&c="))).json()
    assert seen["query"] == {"a": ["1", "2"], "b": ["é"], "c": [""]}


async def test_encoded_path_is_decoded_for_routes_and_kept_raw(front: RunningServer) -> None:
    seen = (await ask(front, request_bytes("GET", "/v1/seen/a%2Fb%20c"))).json()
    assert (seen["rest"], seen["raw_path"]) == ("a/b c", "/v1/seen/a%2Fb%20c")


async def test_root_path_does_not_send_the_relay_to_django(stub_wiring: object) -> None:
    from tests.flows import views  # noqa: PLC0415  needs Django set up
    from tests.flows.server import running_server  # noqa: PLC0415  likewise

    async with running_server(views.stub_application(), root_path="/api") as server:
        answer = await ask(server, request_bytes("GET", "/v1/seen/x"))
        assert answer.json()["rest"] == "x"


async def test_query_that_is_not_utf8_is_refused_in_dialect(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("GET", "/v1/seen/x?a=\xff"))
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"


async def test_multipart_keeps_repeated_parts_and_names(front: RunningServer) -> None:
    parts = [
        ('name="mask"; filename="m.png"', b"M"),
        ('name="image[]"; filename="b\xc3\xbc.png"', b"\x80\xff"),
        ('name="image[]"; filename="2.png"', b"22"),
        ('name="prompt"', b"p"),
    ]
    body = b"".join(
        b"--B\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (name.encode("latin-1"), content)
        for name, content in parts
    )
    raw = request_bytes(
        "POST", "/v1/form", ("Content-Type", "multipart/form-data; boundary=B"), body=body + b"--B--\r\n"
    )
    answer = (await ask(front, raw)).json()
    assert answer == {"fields": {"prompt": ["p"]}, "files": [["bü.png", 2], ["2.png", 2]]}


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/sync", b"sync"), ("/v1/plain", b"plain"), ("/v1/threaded", b"threaded")]
)
async def test_sync_ninja_async_django_and_sync_django_views(
    front: RunningServer, path: str, body: bytes
) -> None:
    assert (await ask(front, request_bytes("GET", path))).body == body


async def test_request_id_is_ours_and_the_clients_is_kept_clean(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("GET", "/v1/seen/x", ("X-Request-Id", "abc\t<b>-1" + "9" * 200)))
    seen = answer.json()
    assert answer.header("x-request-id") == seen["request_id"]
    assert seen["request_id"][14] == "7", "a UUID of version 7"
    assert seen["client_request_id"].startswith("abcb-19")
    assert len(seen["client_request_id"]) == 128


async def test_received_at_is_monotonic_seconds(front: RunningServer) -> None:
    seen = (await ask(front, request_bytes("GET", "/v1/seen/x"))).json()
    assert 0 <= seen["age_s"] < 1
    assert seen["is_abortable"]


async def test_big_answer_is_whole(front: RunningServer) -> None:
    size = 3 * 65_536 + 17
    answer = await ask(front, request_bytes("GET", f"/v1/big?size={size}"))
    assert answer.body == b"y" * size
    assert answer.header("transfer-encoding") is None


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 131_072])
async def test_slices_lose_nothing_at_their_edges(front: RunningServer, size: int) -> None:
    answer = await ask(front, request_bytes("GET", f"/v1/big?size={size}"))
    assert (len(answer.body), answer.header("content-length")) == (size, str(size))


async def test_stream_is_chunked_and_ends(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("GET", "/v1/tick?count=3"))
    assert unchunked(answer.body) == b"x" * 15


async def test_connection_carries_several_requests(front: RunningServer) -> None:
    reader, writer = await front.connect()
    for body in (b"one", b"two", b"three"):
        writer.write(request_bytes("POST", "/v1/echo", body=body, close=False))
        assert (await read_answer(reader)).body == body
    writer.close()


async def test_head_on_a_get_route_has_headers_and_no_body(front: RunningServer) -> None:
    reader, writer = await front.connect()
    writer.write(request_bytes("HEAD", "/v1/big?size=7", close=False))
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-length: 7\r\n" in head
    writer.write(request_bytes("POST", "/v1/echo", body=b"next", close=False))
    assert (await read_answer(reader)).body == b"next", "nothing stood between the two answers"
    writer.close()


async def test_head_on_a_stream_does_not_hang(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("HEAD", "/v1/tick"))
    assert (answer.status, answer.body) == (200, b"")


async def test_204_has_neither_length_nor_chunks(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("GET", "/v1/empty"))
    assert (answer.status, answer.body) == (204, b"")
    assert answer.header("content-length") is None
    assert answer.header("transfer-encoding") is None


async def test_console_is_djangos(front: RunningServer) -> None:
    answer = await ask(front, request_bytes("GET", "/"))
    assert answer.status == 302
    assert answer.header("location") == "/admin/"
    assert answer.header("x-request-id") is None


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1beta", "/v1beta/models", "/v1/../admin/"])
async def test_relay_paths_never_reach_the_console(front: RunningServer, path: str) -> None:
    answer = await ask(front, request_bytes("GET", path))
    assert answer.status == 404
    assert b'"unknown_url"' in answer.body, "whatever the dialect of the path"


@pytest.mark.parametrize("path", ["/v1x", "/v10/chat", "//v1/echo", "/healthz/"])
async def test_what_only_looks_like_a_relay_path_is_the_consoles(front: RunningServer, path: str) -> None:
    answer = await ask(front, request_bytes("GET", path))
    assert answer.status == 404
    assert (
        answer.header(
            "content-type",
        )
        != "application/json"
    )


async def test_absolute_form_is_routed_by_its_path(front: RunningServer) -> None:
    seen = (await ask(front, request_bytes("GET", "http://elsewhere.example/v1/seen/x"))).json()
    assert (seen["rest"], seen["raw_path"]) == ("x", "/v1/seen/x")
