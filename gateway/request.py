"""The relay's request: Django's own, plus what the relay reads of the wire.

Built from the head alone; the body is put in when it has come. Must not import views or wiring.
"""

import asyncio
import io
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest

from gateway.client_watch import ClientWatch
from gateway.connection import ClientConnection, client_address
from gateway.sending import Receive, Scope
from relay.core.errors import Refusal


class RelayRequest(ASGIRequest):
    """relay_headers: as they came, repeated and with `_`, names in lower case. raw_path: percent-encoded,
    without the query. received_at: the loop's clock at the arrival of the head, seconds. client_ip: see
    `gateway.connection.client_address`. client_request_id: the client's own id, cleaned, or "".
    is_body_read: the whole body has come (or there is none).
    """

    relay_headers: list[tuple[bytes, bytes]]
    raw_path: bytes
    connection: ClientConnection
    client_ip: str
    received_at: float
    request_id: str = ""
    client_request_id: str = ""
    is_body_read: bool
    watch: ClientWatch
    urlconf: Any

    def __init__(self, scope: Scope, receive: Receive, urlconf: str) -> None:
        self._has_readable_query = True
        try:
            super().__init__(scope, io.BytesIO())
        except UnicodeDecodeError:
            super().__init__({**scope, "query_string": b""}, io.BytesIO())
            self.scope = scope
            self._has_readable_query = False
        self.receive = receive
        self.urlconf = urlconf
        self._body = b""
        self.is_body_read = not self._announces_body
        self.relay_headers = scope["headers"]
        self.raw_path = scope.get("raw_path") or scope["path"].encode()
        self.connection = ClientConnection.from_scope(scope)
        self.received_at = asyncio.get_running_loop().time()
        forwarded = self.META.get("HTTP_X_FORWARDED_FOR", "")
        self.client_ip = client_address(scope, forwarded, settings.TRUSTED_PROXIES)

    async def read_body(self, limit: int) -> None:
        """From here on `body`, `POST` and `FILES` work, without Django's own size limit.

        limit: bytes. Raises `Refusal`: 413 as soon as the limit is known to be passed, 400 for a query
        that is not UTF-8; `RequestAborted` when the client left.
        """
        if not self._has_readable_query:
            raise Refusal(400, "The query string is not UTF-8.", code="bad_request")
        if self.is_body_read:
            return
        if self._declared_length > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        size = 0
        while not self.is_body_read:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise RequestAborted
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise _too_large(limit)
            self.is_body_read = not message.get("more_body", False)
        self._body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._stream = io.BytesIO(self._body)

    @property
    def _declared_length(self) -> int:
        text = self.META.get("CONTENT_LENGTH", "")
        return int(text[:19]) if text.isdecimal() else 0

    @property
    def _announces_body(self) -> bool:
        return "HTTP_TRANSFER_ENCODING" in self.META or self._declared_length > 0


def _too_large(limit: int) -> Refusal:
    return Refusal(413, f"The request body is larger than {limit} bytes.", code="request_too_large")


def relay_request(request: HttpRequest) -> RelayRequest:
    """The same object, typed: every view of the relay gets one."""
    if not isinstance(request, RelayRequest):
        raise TypeError("not served by the relay handler")
    return request
