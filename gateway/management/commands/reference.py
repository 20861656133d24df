"""`manage.py reference`: prints a reference page, or writes all of them into docs/ (`gateway.reference`)."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway.reference import PAGES
from gateway.settings.environment import BASE_DIR


class Command(BaseCommand):
    help = "Make reference pages from the tables in code: print them, or write them into docs/."
    requires_system_checks: list[str] = []  # noqa: RUF012  Django declares it as an instance attribute

    def add_arguments(self, parser: CommandParser) -> None:
        # Not `choices`: argparse would hold the empty default against them.
        parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PAGES)} (default: all)")
        parser.add_argument("--write", action="store_true", help="write docs/NAME.md instead of printing")

    def handle(self, *_args: Any, **options: Any) -> None:
        names = options["names"] or list(PAGES)
        if unknown := [name for name in names if name not in PAGES]:
            raise CommandError(f"No such page: {', '.join(unknown)}. There are {', '.join(PAGES)}.")
        for name in names:
            text = PAGES[name]()
            if not options["write"]:
                self.stdout.write(text)
                continue
            path = BASE_DIR / "docs" / f"{name}.md"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            self.stdout.write(str(path.relative_to(BASE_DIR)))
