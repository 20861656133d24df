"""`manage.py prices export FILE` and `manage.py prices import FILE` (`gateway.price_files`)."""

import datetime
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils.dateparse import parse_date, parse_datetime

from gateway.price_files.exporting import export_text
from gateway.price_files.importing import LitellmOptions, import_file
from gateway.price_files.tables import UnreadablePriceFile, format_of
from gateway.provisioning import ProvisioningRefused, report_lines


class Command(BaseCommand):
    help = "Write all prices to a file, or make the prices what a file says: YAML, JSON, CSV, by its name."
    requires_system_checks: list[str] = []  # noqa: RUF012  Django declares it as an instance attribute

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        export = actions.add_parser("export", help="write every open price, cost price and multiplier")
        export.add_argument("file", type=Path, help="ends with .yaml, .json or .csv; is overwritten")
        reading = actions.add_parser(
            "import", help="set what the file says, all or nothing; LiteLLM's price list is understood too"
        )
        reading.add_argument("file", type=Path, help="ends with .yaml, .json or .csv")
        reading.add_argument(
            "--dry-run", action="store_true", help="print what would change, and change nothing"
        )
        reading.add_argument("--only", metavar="PATTERN", help="of LiteLLM's list: these models, as gpt-*")
        reading.add_argument("--group", help="of LiteLLM's list: prices of this tenant group, not of all")
        reading.add_argument(
            "--effective-from",
            type=_moment,
            metavar="TIME",
            help="of LiteLLM's list: when the prices begin, as 2027-01-01 or 2027-01-01T08:00:00Z",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            if options["action"] == "export":
                self._export(options["file"])
            else:
                self._import(options)
        except (ProvisioningRefused, UnreadablePriceFile) as error:
            raise CommandError(f"refused, nothing was changed:\n{error}") from error
        except (DatabaseError, RuntimeError) as error:
            # The driver's text can quote values; its class says enough.
            hint = "Was `manage.py migrate` run, and does the database answer?"
            raise CommandError(f"nothing was changed: {type(error).__name__}. {hint}") from None

    def _export(self, path: Path) -> None:
        text = export_text(format_of(path))
        try:
            path.write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror or 'cannot be written'}") from error

    def _import(self, options: dict[str, Any]) -> None:
        given = {name: options[name] for name in ("only", "group", "effective_from") if options[name]}
        report = import_file(
            options["file"],
            is_dry_run=options["dry_run"],
            litellm=LitellmOptions(**given) if given else None,
        )
        for warning in report.warnings:
            self.stderr.write(f"warning: {warning}")
        for line in report_lines(report):
            self.stdout.write(line)


def _moment(text: str) -> datetime.datetime:
    try:
        date = parse_date(text)
        if date is not None:
            return datetime.datetime(date.year, date.month, date.day, tzinfo=datetime.UTC)
        moment = parse_datetime(text)
    except ValueError:
        moment = None  # shaped like one, but there is no such day
    if moment is None or moment.tzinfo is None:
        raise ArgumentTypeError("a date, or a time with Z or an offset, is expected")
    return moment
