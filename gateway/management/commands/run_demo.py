"""`manage.py run_demo`, behind `make run`: everything a first look needs, in one terminal.

Migrates, fills an empty database, starts the simulated upstream (and, with REDIS_URL, a worker and beat)
as children, then serves as `serve` does. `gateway.demo` says what is put in.
"""

import contextlib
import http.client
import os
import signal
import socket
import sys
import threading
import time
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connections

from gateway.children import ChildFailed, Children, first_line
from gateway.demo import DemoAccess, demo_provision, summary_lines
from gateway.front import server
from gateway.front.serving_lock import AlreadyServing, serving_lock
from gateway.provisioning import ProvisioningRefused
from gateway.settings.environment import BASE_DIR, ENV, LOOPBACK_NETWORKS
from gateway.simulator import DEFAULT_PORT as SIMULATOR_PORT

# Settings read the environment when they are imported, which was before this command was known.
_ENVIRONMENT = {
    "UPSTREAM_ALLOWED_PRIVATE_NETS": LOOPBACK_NETWORKS,
    "READY_DELAY_SECONDS": "0",
    "SHUTDOWN_GRACE_SECONDS": "5",
    "LOG_LEVEL": "WARNING",
}
SIMULATOR_START_S = 60.0
READY_S = 60.0


class Command(BaseCommand):
    help = "Run a gateway to look at: demo tenant, admin login, simulated upstream. Needs nothing installed."
    requires_system_checks: list[str] = []  # noqa: RUF012  Django declares it as an instance attribute

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=8000, help="port, 0 for any (default: %(default)s)")
        parser.add_argument(
            "--simulator-port",
            type=int,
            default=SIMULATOR_PORT,
            help="the simulator's port; a free one if that is taken (default: %(default)s)",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        _set_environment()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _leave)
        host, port = options["host"], options["port"]
        with contextlib.ExitStack() as held:
            listener = _listener(host, port)
            held.callback(listener.close)
            url = _url(host, listener.getsockname()[1])
            if not settings.REDIS_URL:
                _take_lock(held, url)
            _migrate()
            children = held.enter_context(Children(BASE_DIR))
            access = _provision(_start_simulator(children, options["simulator_port"]))
            if settings.REDIS_URL:
                _start_workers(children)
            connections.close_all()
            threading.Thread(target=self._announce, args=(url, access), daemon=True).start()
            server.run(_config(), listener)

    def _announce(self, url: str, access: DemoAccess) -> None:
        """As soon as what it says is true."""
        address = url.removeprefix("http://")
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and not _is_ready(address):
            time.sleep(0.05)
        for line in summary_lines(url, access):
            self.stdout.write(line)
        self.stdout.flush()


def _set_environment() -> None:
    """Once again from the start, if the environment leaves open what the demo wants otherwise."""
    missing = {name: value for name, value in _ENVIRONMENT.items() if name not in os.environ}
    if missing:
        os.environ.update(missing)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  ourselves


def _listener(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise CommandError(f"--port {port}: a port is a number from 0 to 65535.")
    try:
        return server.open_listener(host, port)
    except OSError as error:
        raise CommandError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}. "
            f"Stop what uses it, or take another one: make run PORT={min(port + 1, 65535)}"
        ) from error


def _url(host: str, port: int) -> str:
    """As a browser on this machine reaches it."""
    shown = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  not bound here
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def _take_lock(held: contextlib.ExitStack, url: str) -> None:
    try:
        held.enter_context(serving_lock(settings.DATA_DIR, url))
    except AlreadyServing as error:
        raise CommandError(
            f"Already serving: {error}. Stop that one, or give this one another DATA_DIR."
        ) from error


def _migrate() -> None:
    try:
        call_command("migrate", verbosity=0, interactive=False)
    except DatabaseError as error:
        raise CommandError(f"The database cannot be used ({type(error).__name__}): {error}") from error


def _start_simulator(children: Children, port: int) -> str:
    """Its base URL."""
    chosen = port if _is_free(port) else 0
    child = children.start_script("manage.py", "simulate_upstream", "--port", str(chosen))
    try:
        line = first_line(child, "simulated upstream", SIMULATOR_START_S)
    except ChildFailed as error:
        raise CommandError(str(error)) from error
    return next(word for word in line.split() if word.startswith("http://"))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True


def _provision(simulator_url: str) -> DemoAccess:
    try:
        return demo_provision(data_dir=settings.DATA_DIR, simulator_url=simulator_url)
    except ProvisioningRefused as error:
        raise CommandError(
            f"The demo's upstream runs on this machine, which UPSTREAM_ALLOWED_PRIVATE_NETS must allow "
            f"({LOOPBACK_NETWORKS}):\n{error}"
        ) from error


def _start_workers(children: Children) -> None:
    celery = ("celery", "-A", "gateway.celery")
    quiet = ("--loglevel", ENV.LOG_LEVEL)
    children.start_module(
        *celery, "worker", "--concurrency", "1", "--without-gossip", "--without-mingle", *quiet
    )
    schedule = str(settings.DATA_DIR / "celerybeat-schedule")
    children.start_module(*celery, "beat", "--schedule", schedule, "--pidfile", "", *quiet)


def _config() -> Any:
    return server.build_config(
        ":".join(settings.ASGI_APPLICATION.rsplit(".", 1)),  # Django writes a.b.c, uvicorn a.b:c
        log_level=ENV.LOG_LEVEL,
        grace_s=settings.SHUTDOWN_GRACE_SECONDS,
    )


def _is_ready(address: str) -> bool:
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)
