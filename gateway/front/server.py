"""The HTTP server: uvicorn's settings, its socket and its processes. `protocol` is what runs in it.

Must not import Django or anything that does: worker processes load it before Django is set up.
"""

import contextlib
import math
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

KEEP_ALIVE_TIMEOUT_S = 75
"""Longer than the usual 60 s of load balancers, so that they and not we close an idle connection."""
SEND_BUFFER_BYTES = 131_072
"""Small: what the kernel takes looks served, although nobody reads it."""
BACKLOG = 4096
SHUTDOWN_NET_S = 5
"""Beyond the grace: what has not ended by then is cancelled."""
PARENT_POLL_S = 0.5


def open_listener(host: str, port: int) -> socket.socket:
    """A bound TCP socket; connections inherit its options. Raises OSError: port taken, bad address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
    except BaseException:
        listener.close()
        raise
    listener.set_inheritable(True)
    return listener


def build_config(
    application: Any,
    *,
    workers: int = 1,
    log_level: str = "info",
    grace_s: float = 60.0,
    lifespan: Any = "on",
) -> uvicorn.Config:
    """The settings we run uvicorn with.

    application: import string `module:name` (workers need one) or object. grace_s: how long streams drain.
    """
    return uvicorn.Config(
        application,
        loop="uvloop",
        http="gateway.front.protocol:RelayProtocol",
        lifespan=lifespan,
        workers=workers,
        log_config=None,
        log_level=log_level.lower(),
        access_log=False,
        proxy_headers=False,  # on by default, and trusts loopback: TRUSTED_PROXIES decides
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_TIMEOUT_S,
        timeout_graceful_shutdown=math.ceil(grace_s) + SHUTDOWN_NET_S,
    )


def run(config: uvicorn.Config, listener: socket.socket) -> None:
    """Serve until a signal: in this process, or in `config.workers` supervised ones."""
    if config.workers > 1:
        Multiprocess(config, [listener]).run()
    else:
        uvicorn.Server(config).run(sockets=[listener])


def watch_parent(on_orphaned: Callable[[], object], give_up_after_s: float) -> None:
    """In a worker process: call `on_orphaned`, from a thread, when the parent has gone. Else nothing.

    A parent that is killed outright cannot stop its workers; they would go on and hold the port. One that
    has not ended `give_up_after_s` later is ended the hard way.
    """
    parent = multiprocessing.parent_process()
    if parent is None or parent.pid is None:
        return
    watcher = threading.Thread(
        target=_poll_parent, args=(parent.pid, on_orphaned, give_up_after_s), name="parent-watch", daemon=True
    )
    watcher.start()


def _poll_parent(pid: int, on_orphaned: Callable[[], object], give_up_after_s: float) -> None:
    while os.getppid() == pid:
        time.sleep(PARENT_POLL_S)
    with contextlib.suppress(RuntimeError):  # the loop is closed: the worker is ending anyway
        on_orphaned()
    time.sleep(give_up_after_s)
    os._exit(1)
