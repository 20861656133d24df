"""`manage.py simulate_upstream`: the simulated upstream in a process of its own.

The only place where the simulator meets Django.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway.simulator import DEFAULT_HOST, DEFAULT_PORT, all_behaviours, run_simulator
from gateway.simulator.registry import HEADINGS


class Command(BaseCommand):
    """Serve until interrupted, or list the behaviours."""

    help = "Run a simulated OpenAI/Anthropic/Gemini upstream; the model name chooses how it behaves."
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django declares it as an instance attribute

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--host", default=DEFAULT_HOST, help="address to listen on (default: %(default)s)"
        )
        parser.add_argument(
            "--port", type=int, default=DEFAULT_PORT, help="port (default: %(default)s, 0: any)"
        )
        parser.add_argument("--require-key", metavar="VALUE", help="answer 401 to any other credential")
        parser.add_argument("--list", action="store_true", help="print the behaviours and leave")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run the command."""
        if options["list"]:
            self._print_behaviours()
            return
        try:
            run_simulator(
                options["host"],
                options["port"],
                required_key=options["require_key"],
                on_ready=self._say_ready,
            )
        except OSError as error:
            raise CommandError(f"Cannot listen on {options['host']}:{options['port']}: {error}") from error

    def _say_ready(self, url: str) -> None:
        self.stdout.write(f"Simulated upstream at {url} (Ctrl-C stops it)")
        self.stdout.flush()  # a parent process may be waiting for this line

    def _print_behaviours(self) -> None:
        rows = all_behaviours()
        width = max(len(row.example) for row in rows)
        subject = ""
        for row in rows:
            if row.subject != subject:
                subject = row.subject
                self.stdout.write(f"\n{HEADINGS[subject]}")
            self.stdout.write(f"  {row.example:<{width}}  {row.meaning}")
        self.stdout.write("\nNumbers in a name are yours to choose. Any other name behaves as echo.")
        self.stdout.write("`@label` at the end of a name is ignored: flaky-2@a and flaky-2@b count apart.")
