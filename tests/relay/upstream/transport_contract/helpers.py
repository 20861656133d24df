"""Reading helpers of the contract suite."""

import httpx

from relay.upstream.transports.contract import BodyStream


def body_of(response: httpx.Response) -> BodyStream:
    assert isinstance(response.stream, BodyStream)
    return response.stream


async def read_all(response: httpx.Response) -> bytes:
    """The whole body through read_some; closes the response."""
    stream = body_of(response)
    try:
        parts = []
        while data := await stream.read_some():
            parts.append(data)
        return b"".join(parts)
    finally:
        await stream.aclose()


async def read_until_error(response: httpx.Response) -> tuple[bytes, Exception]:
    """The bytes that came before the failure, and the failure."""
    stream = body_of(response)
    parts = []
    try:
        while data := await stream.read_some():
            parts.append(data)
    except httpx.HTTPError as error:
        return b"".join(parts), error
    finally:
        await stream.aclose()
    raise AssertionError("the body ended cleanly")
