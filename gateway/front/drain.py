"""Ending a process without cutting anybody off: readiness first, then the listener, then what still runs.

SIGTERM → readiness is false at once → READY_DELAY_SECONDS later the server closes its listener and
waits → SHUTDOWN_GRACE_SECONDS after that every live request is stopped. Must not import the relay.
"""

import asyncio
import logging
import signal
from collections.abc import Callable
from types import FrameType

from django.conf import settings

StopAll = Callable[[], None]

_logger = logging.getLogger(__name__)


class Drain:
    """Whether this process is on its way out, and whom to tell when time is up."""

    def __init__(self) -> None:
        self._is_draining = False
        self._callbacks: list[StopAll] = []

    @property
    def is_draining(self) -> bool:
        return self._is_draining

    def begin(self) -> None:
        """Readiness is false from here on. Idempotent."""
        if not self._is_draining:
            self._is_draining = True
            _logger.info("draining: readiness is false")

    def on_stop_all(self, callback: StopAll) -> Callable[[], None]:
        """`callback` is called on the loop when the grace is over; it stops every live request it knows.

        Returns a function that takes the registration back.
        """
        self._callbacks.append(callback)

        def forget() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return forget

    def stop_all(self) -> None:
        """The grace is over. One callback's failure does not keep the others from being called."""
        for callback in tuple(self._callbacks):
            try:
                callback()
            except Exception as error:  # noqa: BLE001  whatever it is, the others must hear it too
                _logger.error("a stop callback failed: %s", type(error).__qualname__)  # noqa: TRY400  no message

    def reset(self) -> None:
        """A new server in the same process (tests): ready again. Registrations stay."""
        self._is_draining = False


drain = Drain()
"""The one of this process."""

_Handler = Callable[[int, FrameType | None], object]


def install_signal_handlers(loop: asyncio.AbstractEventLoop) -> None:
    """Put the drain before the handlers that the server has set. Outside the main thread: nothing.

    The server closes its listener as soon as it hears SIGTERM, so nobody could ask for readiness any
    more; it hears it late therefore. SIGINT is a person at a terminal: no delay. A second signal means
    hurry: it goes straight to the server.
    """
    for number, delay_s in ((signal.SIGTERM, settings.READY_DELAY_SECONDS), (signal.SIGINT, 0.0)):
        previous = signal.getsignal(number)
        if not callable(previous):
            continue
        try:
            signal.signal(number, _wrapped(previous, delay_s, loop))
        except ValueError:  # not the main thread: whoever runs us owns the signals
            return


def leave(loop: asyncio.AbstractEventLoop, previous: _Handler, number: int, delay_s: float) -> None:
    """Begin the drain and pass the signal on after `delay_s`. Runs on the loop."""
    drain.begin()
    loop.call_later(delay_s, previous, number, None)
    loop.call_later(delay_s + settings.SHUTDOWN_GRACE_SECONDS, drain.stop_all)


def _wrapped(previous: _Handler, delay_s: float, loop: asyncio.AbstractEventLoop) -> _Handler:
    def on_signal(number: int, frame: FrameType | None) -> None:
        if drain.is_draining:
            previous(number, frame)
        else:
            loop.call_soon_threadsafe(leave, loop, previous, number, delay_s)

    return on_signal
