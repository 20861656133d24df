"""`python -m gateway.guarded PARENT_PID script|module NAME [ARGUMENT…]`: a program that ends with its parent.

A parent that is killed outright tells its children nothing; this watches for it. The program runs in this
same process. Must not import Django or anything that does: the program decides what is imported.
"""

import os
import runpy
import signal
import sys
import threading
import time
import warnings

POLL_S = 0.5
MERCY_S = 5.0
"""From the polite signal to the one that cannot be refused."""


def main(arguments: list[str]) -> None:
    parent, kind, name, *rest = arguments
    threading.Thread(target=_end_with, args=(int(parent),), name="parent-watch", daemon=True).start()
    # Celery tells root at length not to run workers; in a container there is nobody else.
    warnings.filterwarnings("ignore", message=r"\s*You're running the worker with superuser privileges")
    sys.argv = [name, *rest]
    if kind == "module":
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(name, run_name="__main__")


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(MERCY_S)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # the whole group: a worker's pool processes hold its sockets
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
