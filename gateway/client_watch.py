"""Whether the client of one request is still there. Must not import views or the handler."""

import asyncio

from django.http.response import HttpResponseBase

from gateway.sending import Receive
from relay.upstream.aio_tasks import spawn


class ClientWatch:
    """Whether the client of one request is still there; acts in the step in which it leaves."""

    __slots__ = ("_receive", "_task", "_watcher", "has_left", "response")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._task = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None
        self.response: HttpResponseBase | None = None
        self.has_left = False

    def start(self) -> None:
        """The body is read: whatever comes from now on is the client's leaving."""
        self._watcher = spawn(self._watch(), name="client-watch")

    def stop(self) -> None:
        """Servers also say "disconnect" after a complete answer: stop in the step that completes it."""
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
        self.has_left = True
        if not self.tell_response() and self._task is not None:
            self._task.cancel()
