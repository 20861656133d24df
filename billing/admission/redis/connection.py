"""One connection to Redis for batches of scripts, with one time limit for each batch. No retries."""

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, cast

import redis.asyncio
from hiredis import pack_command
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from billing.admission.redis.scripts import Script
from billing.admission.redis.time_limit import TimeLimit
from billing.admission.redis.wire import Wire

EXCHANGE_TIMEOUT_S = 0.2

Argument = str | bytes | int
Calls = Sequence[tuple[Script, tuple[Argument, ...]]]


class Exchange(Protocol):
    """What the store task needs of a connection."""

    async def exchange(self, calls: Calls) -> list[Any]:
        """The replies, in order; a script's own error stands in its place as an exception (ResponseError).

        Errors: any exception; then each of the calls may or may not have happened.
        """

    async def aclose(self) -> None: ...


class Connection:
    """Used by one task of one loop. Connects when it is needed; after any failure anew, so that a late
    reply of an earlier batch cannot be taken for one of the next.
    """

    def __init__(self, url: str) -> None:
        # The library's own limits would cost a timer for each reply; `exchange` has one for all.
        pool: Any = redis.asyncio.ConnectionPool.from_url(
            url, protocol=2, socket_timeout=None, socket_connect_timeout=None, retry=Retry(NoBackoff(), 0)
        )
        self._connection = pool.make_connection()
        self._wire: Wire | None = None
        self._loaded: set[str] = set()
        self._limit = TimeLimit(EXCHANGE_TIMEOUT_S)

    async def exchange(self, calls: Calls) -> list[Any]:
        """Errors: RedisError, TimeoutError."""
        try:
            wire = self._wire
            if wire is None or wire.is_lost:
                wire = await self._dial()
            self._limit.watch(wire.expire)
            return await self._exchange(wire, calls)
        except BaseException:
            await self._disconnect(nowait=True)
            raise
        finally:
            self._limit.release()

    async def aclose(self) -> None:
        self._limit.close()
        with contextlib.suppress(TimeoutError, RedisError):
            async with asyncio.timeout(EXCHANGE_TIMEOUT_S):
                await self._disconnect()

    async def _dial(self) -> Wire:
        await self._disconnect(nowait=True)
        async with asyncio.timeout(None) as scope:
            self._limit.watch(lambda: scope.reschedule(asyncio.get_running_loop().time()))
            await cast("Awaitable[None]", self._connection.connect())
        transport: asyncio.Transport = self._connection._writer.transport  # noqa: SLF001  redis-py shows it to nobody
        wire = self._wire = Wire(transport, transport.get_protocol())
        transport.set_protocol(wire)
        return wire

    async def _disconnect(self, *, nowait: bool = False) -> None:
        self._wire = None
        self._loaded.clear()
        await cast("Awaitable[None]", self._connection.disconnect(nowait=nowait))

    async def _exchange(self, wire: Wire, calls: Calls) -> list[Any]:
        loads = self._loads(calls)
        replies = await _sent(wire, [*loads, *(("EVALSHA", script.sha, 1, *rest) for script, rest in calls)])
        del replies[: len(loads)]
        forgotten = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if forgotten:
            # Its scripts were flushed: nothing of these calls has happened.
            again = await _sent(wire, [_eval(*calls[index]) for index in forgotten])
            for index, reply in zip(forgotten, again, strict=True):
                replies[index] = reply
        return replies

    def _loads(self, calls: Calls) -> list[tuple[str, ...]]:
        """For scripts that this connection uses for the first time: the server may not know them, and a call
        that had to be sent again would come after those that were queued behind it.
        """
        new = {script.sha: script.text for script, _ in calls if script.sha not in self._loaded}
        self._loaded.update(new)
        return [("SCRIPT", "LOAD", text) for text in new.values()]


def _sent(wire: Wire, commands: list[Any]) -> asyncio.Future[list[Any]]:
    """commands: tuples of `Argument`; hiredis' stub knows tuples of one."""
    return wire.send(b"".join([pack_command(command) for command in commands]), len(commands))


def _eval(script: Script, rest: tuple[Argument, ...]) -> tuple[Argument, ...]:
    return ("EVAL", script.text, 1, *rest)
