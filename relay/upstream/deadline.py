"""A timer whose due time moves with every byte, at the price of an assignment."""

from collections.abc import Callable

from relay.core.stream_state import NEVER
from relay.upstream.ports import Clock, Timer


class Deadline:
    """Calls `on_expiry` once `due` has passed.

    A loop timer per event would cost more than the event. Here the running timer fires at the due time
    it was armed for, looks whether `due` has moved, and sleeps on. Only a move to an *earlier* time
    than the armed one re-arms.
    """

    __slots__ = ("_armed_for", "_clock", "_due", "_on_expiry", "_timer")

    def __init__(self, clock: Clock, on_expiry: Callable[[], None]) -> None:
        self._clock = clock
        self._on_expiry = on_expiry
        self._due = NEVER
        self._timer: Timer | None = None
        self._armed_for = NEVER

    def move(self, due: float) -> None:
        self._due = due
        if due < self._armed_for:
            self._arm(due)

    def pause(self) -> None:
        self._due = NEVER

    def close(self) -> None:
        """For good. Lets go of its owner too: the two would else wait for the garbage collector."""
        self._on_expiry = _nothing
        self._due = NEVER
        self._armed_for = NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = due
        self._timer = self._clock.call_at(due, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._armed_for = NEVER
        if self._due == NEVER:
            return
        if self._clock.now() >= self._due:
            self._due = NEVER
            self._on_expiry()
        else:
            self._arm(self._due)


def _nothing() -> None:
    pass
