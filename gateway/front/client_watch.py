"""Whether the client of one request is still there. Must not import views or the handler."""

import asyncio

from django.http.response import HttpResponseBase

from gateway.front.connection import ClientConnection
from gateway.front.sending import Receive
from relay.upstream.aio_tasks import spawn


class ClientWatch:
    """Whether the client of one request is still there; acts in the step in which it leaves.

    Our protocol class calls us; with other servers a task waits for their "disconnect".
    """

    __slots__ = ("_connection", "_receive", "_task", "_watcher", "has_left", "response")

    def __init__(self, connection: ClientConnection, receive: Receive) -> None:
        self._connection = connection
        self._receive = receive
        self._task = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None
        self.response: HttpResponseBase | None = None
        self.has_left = False

    def start(self, *, is_body_read: bool) -> None:
        """Idempotent. Servers without our protocol class are asked once nobody else reads their messages."""
        if self._connection.can_abort:
            self._connection.on_lost = self._leave
        elif is_body_read and self._watcher is None:
            self._watcher = spawn(self._watch(), name="client-watch")

    def stop(self) -> None:
        """Servers also say "disconnect" after a complete answer: stop in the step that completes it."""
        if self._connection.on_lost == self._leave:  # else the connection carries the next request already
            self._connection.on_lost = None
        if self._watcher is not None:
            self._watcher.cancel()

    def tell_response(self) -> bool:
        """False if there is no response yet, or none that can be told."""
        client_left = getattr(self.response, "client_left", None)
        if client_left is None:
            return False
        client_left()
        return True

    def swallow_cancellation(self) -> None:
        if self._task is not None:
            self._task.uncancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._leave()

    def _leave(self) -> None:
        self.has_left = True
        if not self.tell_response() and self._task is not None:
            self._task.cancel()
