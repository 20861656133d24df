"""Runs regular jobs in a thread of this process: the embedded mode's beat and worker for what may take long.

Settling has a thread of its own (`billing.nudger`), which a slow upstream must not hold up.
"""

import logging
import threading
import time
from collections.abc import Mapping

from celery import current_app
from django.db import connections

import gateway.tasks  # noqa: F401  registers the jobs, which are run by name
from billing.schedule import ScheduleEntry

_logger = logging.getLogger(__name__)


class Ticker:
    """`start` once, `stop` once. The thread is a daemon: a job that hangs cannot keep the process alive."""

    def __init__(self, schedule: Mapping[str, ScheduleEntry]) -> None:
        self._schedule = schedule
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Blocks until the job that runs is over, at most `timeout_s`."""
        self._stopping.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            _logger.warning("a regular job still runs; it is left behind")

    def _run(self) -> None:
        due_at = {name: time.monotonic() + entry["schedule"] for name, entry in self._schedule.items()}
        while not self._stopping.wait(max(0.0, min(due_at.values()) - time.monotonic())):
            for name, moment in due_at.items():
                if moment <= time.monotonic():
                    due_at[name] = time.monotonic() + self._schedule[name]["schedule"]
                    self._try(self._schedule[name]["task"])

    @staticmethod
    def _try(task: str) -> None:
        try:
            current_app.tasks[task].apply()
        except Exception as error:  # noqa: BLE001  whatever a job raises, the thread lives on
            _logger.warning("the job %s failed: %s", task, type(error).__name__)
        finally:
            connections.close_all()
