"""The one door to a new asyncio task: named, referenced until it is done, and never failing in silence.

asyncio keeps only a weak reference to a running task, and an exception nobody awaits surfaces when the
garbage collector feels like it. Every task of the relay therefore starts here. The log line names the
exception's class and nothing else: messages and tracebacks may quote prompts or upstream secrets.

Must not import: Django, anything else of relay.upstream (everything there may import this).
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_logger = logging.getLogger(__name__)

# The event loop holds tasks weakly; this set is what keeps a running one alive.
_running: set[asyncio.Task[Any]] = set()


def spawn(coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """Start `coro` as a task called `name` on the running loop.

    The caller may await, cancel or forget it. An exception (cancellation is none) is logged at ERROR as
    task name and exception class; whoever awaits the task gets it as well.

    Errors: RuntimeError when no loop runs; the coroutine is closed then, so that it leaves no warning.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        coro.close()
        raise
    task = loop.create_task(coro, name=name)
    _running.add(task)
    task.add_done_callback(_finish)
    return task


def running_task_names() -> list[str]:
    """Names of the tasks started here that still run, sorted: for leak checks."""
    return sorted(task.get_name() for task in _running)


def _finish(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if task.cancelled():
        return
    error = task.exception()  # also marks it as seen: asyncio would log the message itself otherwise
    if error is not None:
        kind = type(error)
        _logger.error("task %s failed: %s.%s", task.get_name(), kind.__module__, kind.__qualname__)
