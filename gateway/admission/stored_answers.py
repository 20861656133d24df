"""An answer as it may be given out again: copied while it goes to its client, sealed while it is kept."""

import asyncio

import msgspec
from django.http import HttpResponse

from billing.admission.idempotency import ANSWER_BYTES_MAX, Marker
from channels_admin.crypto import CryptoError, sealer
from gateway.admission.refusals import ORIGINAL_ID
from relay.upstream.answer import Head

_INLINE_BYTES = 64 * 1024
"""Sealed on the loop: a fraction of a millisecond."""
_OWN_FRAMING = frozenset({b"content-length", b"transfer-encoding"})

Headers = tuple[tuple[bytes, bytes], ...]


class StoredAnswer(msgspec.Struct, frozen=True, array_like=True):
    """request_id, key: whose it is, so that an answer cannot be put under another key. headers: without
    those of one transmission (length, request id, CORS).
    """

    request_id: str
    key: str
    status: int
    headers: Headers
    body: bytes


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(StoredAnswer)


class AnswerCopy:
    """What one client is given. headers: those that the gateway added to the upstream's."""

    __slots__ = ("_head", "_headers", "_is_whole", "_parts", "size")

    def __init__(self, head: Head, headers: Headers) -> None:
        self._head = head
        self._headers = headers
        self._is_whole = head.body is not None
        self._parts: list[bytes] | None = [] if head.body is None else [head.body]
        self.size = 0 if head.body is None else len(head.body)
        if head.is_event_stream or self.size > ANSWER_BYTES_MAX:
            self.drop()

    def add(self, data: bytes) -> None:
        """A piece of a body that goes out as it comes."""
        if self._parts is None:
            return
        self._parts.append(data)
        self.size += len(data)
        if self.size > ANSWER_BYTES_MAX:
            self.drop()

    def finish(self) -> None:
        """That was all of it."""
        self._is_whole = True

    def drop(self) -> None:
        """It cannot be given out again."""
        self._parts = None
        self.size = 0

    def answer(self, marker: Marker) -> StoredAnswer | None:
        """None: it was streamed, is too large, or broke off."""
        if self._parts is None or not self._is_whole:
            return None
        passed = tuple(pair for pair in self._head.headers if pair[0].lower() not in _OWN_FRAMING)
        return StoredAnswer(
            marker.request_id, marker.key, self._head.status, passed + self._headers, b"".join(self._parts)
        )


async def seal(answer: StoredAnswer) -> bytes:
    plain = _encode(answer)
    if len(plain) <= _INLINE_BYTES:
        return sealer().seal_answer(plain)
    return await asyncio.to_thread(sealer().seal_answer, plain)


async def unseal(sealed: bytes, request_id: str, key: str) -> StoredAnswer | None:
    """None: its sealing key is not known any more, or it is not the answer of this request."""
    try:
        if len(sealed) <= _INLINE_BYTES:
            plain = sealer().unseal_answer(sealed)
        else:
            plain = await asyncio.to_thread(sealer().unseal_answer, sealed)
        answer = _decoder.decode(plain)
    except (CryptoError, msgspec.MsgspecError):
        return None
    return answer if (answer.request_id, answer.key) == (request_id, key) else None


def answered_again(answer: StoredAnswer) -> HttpResponse:
    """For another client; it says so, and names the request that was answered first."""
    response = HttpResponse(answer.body, status=answer.status)
    del response["Content-Type"]
    for raw_name, raw_value in answer.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        response[name] = f"{response[name]}, {value}" if name in response else value
    response["Idempotent-Replayed"] = "true"
    response[ORIGINAL_ID] = answer.request_id
    return response
