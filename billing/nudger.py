"""The one thread that talks to Celery for the gateway, so that a slow broker never stops the loop.

A nudge carries nothing: it tells the workers to look into the store. Many nudges within one interval
become one. In the embedded mode the same call runs the task itself, here, on this thread's database
connection, and the thread doubles as beat.

Must not import: models, admission.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping

from celery import current_app
from django.db import connections

from billing.metrics import NUDGE_FAILURES
from billing.schedule import BEAT_SCHEDULE, ScheduleEntry
from billing.tasks import record_settled, record_spooled

RECORD_TASK: str = record_settled.name
_MESSAGE_EXPIRY_S = 30.0
"""A nudge nobody read by then is of no use: beat nudges more often."""

_logger = logging.getLogger(__name__)


def celery_nudge(task: str = RECORD_TASK) -> None:
    """Publish the task, or run it here in the embedded mode. One try: the next nudge is never far.

    Errors: RuntimeError on a thread that runs an event loop, which it would stop.
    """
    if _runs_a_loop():
        raise RuntimeError("Celery is called from the nudger's thread only")
    current_app.tasks[task].apply_async(retry=False, expires=_MESSAGE_EXPIRY_S)


def _nothing() -> None:
    pass


class Nudger:
    """interval_s: at least this long between two nudges. schedule: run here at regular times, too.

    first: called in the thread before anything else; may use the database, must not raise.

    Thread-safe. `start` once, `stop` once; the thread is a daemon, so a broker that hangs cannot keep
    the process alive.
    """

    def __init__(
        self,
        *,
        interval_s: float,
        schedule: Mapping[str, ScheduleEntry] | None = None,
        nudge: Callable[[str], None] = celery_nudge,
        first: Callable[[], None] = _nothing,
    ) -> None:
        self._interval_s = interval_s
        self._schedule = schedule or {}
        self._send = nudge
        self._first = first
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._on_stopped: Callable[[], None] = _nothing

    @classmethod
    def from_settings(cls) -> "Nudger":
        """Embedded (eager tasks): rows within 100 ms, and the beat jobs. With a broker: 5 a second."""
        if current_app.conf.task_always_eager:
            return cls(interval_s=0.05, schedule=BEAT_SCHEDULE, first=record_spooled)
        return cls(interval_s=0.2, first=record_spooled)

    def start(self) -> None:
        """Also nudges at once: it finds what an earlier life left, and warms the broker's libraries up."""
        self._wanted.set()
        self._thread = threading.Thread(target=self._run, name="courier-nudger", daemon=True)
        self._thread.start()

    def nudge(self) -> None:
        """Costs nothing, returns at once, never raises."""
        self._wanted.set()

    def stop(self, on_stopped: Callable[[], None]) -> None:
        """Do what is wanted once more, then end. `on_stopped` is called in the thread, last of all."""
        self._on_stopped = on_stopped
        self._stopping.set()
        self._wanted.set()

    def join(self, timeout_s: float) -> bool:
        """Whether the thread is gone."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        due_at = {name: time.monotonic() + entry["schedule"] for name, entry in self._schedule.items()}
        try:
            self._first()
            connections.close_all()  # with a broker this thread needs none from here on
            while not self._stopping.is_set():
                if self._wanted.wait(self._patience(due_at)) and not self._stopping.is_set():
                    self._wanted.clear()
                    self._try(RECORD_TASK)
                    self._stopping.wait(self._interval_s)
                self._run_due(due_at)
            self._try(RECORD_TASK)
        finally:
            connections.close_all()
            self._on_stopped()

    def _run_due(self, due_at: dict[str, float]) -> None:
        for name, moment in due_at.items():
            if moment <= time.monotonic() and not self._stopping.is_set():
                due_at[name] = time.monotonic() + self._schedule[name]["schedule"]
                self._try(self._schedule[name]["task"])

    def _try(self, task: str) -> None:
        try:
            self._send(task)
        except Exception as error:  # noqa: BLE001  whatever the broker's libraries raise, the thread lives on
            NUDGE_FAILURES.inc()
            _logger.warning("nudge of %s failed: %s", task, type(error).__name__)
        _close_broken_connections()

    def _patience(self, due_at: dict[str, float]) -> float | None:
        """Seconds until the next regular job; None = for ever."""
        return max(0.0, min(due_at.values()) - time.monotonic()) if due_at else None


def _close_broken_connections() -> None:
    """No request signal does it here. A sound connection is kept: opening one costs more than a batch."""
    for connection in connections.all(initialized_only=True):
        if connection.errors_occurred:
            connection.close_if_unusable_or_obsolete()


def _runs_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
