"""`manage.py serve`: the production server. `runserver` (Daphne) is for development only."""

import signal
import sys
from argparse import ArgumentParser
from contextlib import AbstractContextManager, nullcontext, suppress
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from gateway.front import server
from gateway.front.metrics import share_between_workers
from gateway.front.serving_lock import AlreadyServing, serving_lock
from gateway.settings.environment import ENV


class Command(BaseCommand):
    help = "Serve /v1 and the console with uvicorn."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=8000, help="port, 0 for any (default: %(default)s)")
        parser.add_argument(
            "--workers", type=int, default=1, help="processes; more than one needs REDIS_URL (default: 1)"
        )
        parser.add_argument(
            "--log-level",
            default=ENV.LOG_LEVEL,
            choices=["DEBUG", "INFO", "WARNING", "ERROR"],
            help="the server's own log level (default: LOG_LEVEL)",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        host, port, workers = options["host"], options["port"], options["workers"]
        _check_workers(workers)
        if not 0 <= port <= 65535:
            raise CommandError(f"--port {port}: a port is a number from 0 to 65535.")
        try:
            with _lock(f"http://{host}:{port}"):
                self._serve(host, port, workers, options["log_level"])
        except AlreadyServing as error:
            raise CommandError(
                f"Already serving: {error}. Without REDIS_URL limits and balances live in one process's "
                "memory, so exactly one may serve; stop the other one, or set REDIS_URL."
            ) from error

    def _serve(self, host: str, port: int, workers: int, log_level: str) -> None:
        if workers > 1:
            share_between_workers(settings.DATA_DIR / f"metrics-{port}")
        try:
            listener = server.open_listener(host, port)
        except OSError as error:
            raise CommandError(f"Cannot listen on {host} port {port}: {error.strerror or error}") from error
        config = server.build_config(
            # Django writes a.b.c, uvicorn a.b:c.
            ":".join(settings.ASGI_APPLICATION.rsplit(".", 1)),
            workers=workers,
            log_level=log_level,
            grace_s=settings.SHUTDOWN_GRACE_SECONDS,
        )
        shown = f"[{host}]" if ":" in host else host
        self.stderr.write(f"Serving on http://{shown}:{listener.getsockname()[1]} (Ctrl-C ends)")
        # uvicorn raises the signal again when it has shut down: without this the process would die of it,
        # and a clean stop would look like a crash to whoever watches exit codes.
        signal.signal(signal.SIGTERM, _leave)
        with suppress(KeyboardInterrupt):
            server.run(config, listener)


def _check_workers(workers: int) -> None:
    if workers < 1:
        raise CommandError(f"--workers {workers}: at least one.")
    if workers > 1 and not settings.REDIS_URL:
        raise CommandError(
            "--workers above 1 needs REDIS_URL: without it limits and balances live in one process's memory, "
            "and each worker would grant them anew."
        )


def _lock(label: str) -> AbstractContextManager[None]:
    return nullcontext() if settings.REDIS_URL else serving_lock(settings.DATA_DIR, label)


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)
