"""The relay's request: Django's own, plus what the relay reads of the wire.

Built from the head alone; `read_body` puts the body in, for views that ask for it. Must not import views
or wiring.
"""

import functools
import io
import time
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest

from gateway.front.client_watch import ClientWatch
from gateway.front.connection import ClientConnection, client_address
from gateway.front.sending import Receive, Scope
from relay.core.errors import Refusal


class ClientRequest(ASGIRequest):
    """Django's request, read from the scope as far as it is asked for: most of it never is.

    relay_headers: as they came, repeated and with `_`, names in lower case. wire: the same as a mapping,
    the last of repeated ones. raw_path: percent-encoded, without the query. received_at: monotonic
    seconds at the arrival of the head. client_request_id: the client's own id, cleaned, or "".
    is_body_read: the whole body has come (or there is none).
    """

    relay_headers: list[tuple[bytes, bytes]]
    wire: dict[bytes, bytes]
    raw_path: bytes
    connection: ClientConnection
    received_at: float
    request_id: str
    client_request_id: str
    is_body_read: bool
    watch: ClientWatch
    urlconf: Any

    def __init__(self, scope: Scope, receive: Receive, urlconf: str, max_body_bytes: int) -> None:
        # Not super().__init__(): it would rebuild every header as META, which only few views read.
        path: str = scope["path"]
        self.scope = scope
        self.receive = receive
        self.urlconf = urlconf
        self.path = path
        self.script_name = scope.get("root_path", "")
        self.path_info = path.removeprefix(self.script_name)
        self.method = scope["method"].upper()
        self.resolver_match = None
        self.relay_headers = scope["headers"]
        self.wire = dict(self.relay_headers)
        self.raw_path = scope.get("raw_path") or path.encode()
        self.connection = ClientConnection.from_scope(scope)
        self.received_at = time.monotonic()
        self.request_id = self.client_request_id = ""
        self._post_parse_error = False
        self._read_started = False
        self._body = b""
        self._max_body_bytes = max_body_bytes
        self.is_body_read = not self._announces_body

    @functools.cached_property
    def _whole(self) -> ASGIRequest:
        """The request as Django builds it, for everything that is read rarely."""
        return ASGIRequest(self.scope, io.BytesIO())

    @functools.cached_property
    def META(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802  Django's name
        return self._whole.META

    @functools.cached_property
    def content_type(self) -> str | None:  # type: ignore[override]  # lazy here
        return self._whole.content_type

    @functools.cached_property
    def content_params(self) -> dict[str, str] | None:  # type: ignore[override]  # lazy here
        return self._whole.content_params

    @functools.cached_property
    def _encoding(self) -> str | None:
        """What the content type says, as Django keeps it behind `encoding`."""
        return self._whole.encoding

    @functools.cached_property
    def _stream(self) -> io.BytesIO:  # type: ignore[override]  # lazy here
        return io.BytesIO(self._body)

    @property
    def body(self) -> bytes:
        """The whole body. RuntimeError before `read_body`: empty would look like an answer."""
        if not self.is_body_read:
            raise RuntimeError("the view did not await read_body()")
        return self._body

    @functools.cached_property
    def client_ip(self) -> str:
        """See `gateway.front.connection.client_address`."""
        forwarded = self.META["HTTP_X_FORWARDED_FOR"] if b"x-forwarded-for" in self.wire else ""
        return client_address(self.scope, forwarded, settings.TRUSTED_PROXIES)

    def set_method(self, method: str) -> None:
        """HEAD is tried as GET where a route knows only that."""
        self.method = method
        self.META["REQUEST_METHOD"] = method

    def close(self) -> None:
        """Files of a form, if one was read."""
        HttpRequest.close(self)

    def check_query(self) -> None:
        """Raises `Refusal` 400 for a query that is not UTF-8."""
        try:
            self.scope["query_string"].decode()
        except UnicodeDecodeError as error:
            raise Refusal(400, "The query string is not UTF-8.", code="bad_request") from error

    async def read_body(self) -> None:
        """From here on `body`, `POST` and `FILES` work, without Django's own size limit. Again: nothing.

        Await it once the caller is known: whoever it is fills our memory up to the handler's limit. Raises
        `Refusal` 413 as soon as the limit is known to be passed, `RequestAborted` when the client left.
        """
        if self.is_body_read:
            return
        limit = self._max_body_bytes
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
        self.watch.start(is_body_read=True)

    @property
    def _declared_length(self) -> int:
        text = self.wire.get(b"content-length", b"0")
        return int(text[:19]) if text.isdigit() else 0

    @property
    def _announces_body(self) -> bool:
        return self._declared_length > 0 or b"transfer-encoding" in self.wire


def _too_large(limit: int) -> Refusal:
    return Refusal(413, f"The request body is larger than {limit} bytes.", code="request_too_large")


def client_request(request: HttpRequest) -> ClientRequest:
    """The same object, typed: every view of the relay gets one."""
    if not isinstance(request, ClientRequest):
        raise TypeError("not served by the relay handler")
    return request
