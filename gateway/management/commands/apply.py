"""`manage.py apply FILE.yaml`: makes the configuration what the file says (`gateway.provisioning`)."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from channels_admin.crypto import CryptoError
from gateway.provisioning import ProvisioningRefused, apply_file, report_lines


class Command(BaseCommand):
    help = (
        "Make flags, stream policies, channels, prices and tenants what a YAML file says. "
        "What the file does not mention stays as it is; ${NAME} reads the environment."
    )
    requires_system_checks: list[str] = []  # noqa: RUF012  Django declares it as an instance attribute

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the YAML file")
        parser.add_argument(
            "--dry-run", action="store_true", help="print what would change, and change nothing"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            report = apply_file(options["file"], is_dry_run=options["dry_run"])
        except ProvisioningRefused as error:
            raise CommandError(f"refused, nothing was changed:\n{error}") from error
        except (DatabaseError, RuntimeError) as error:
            # The driver's text can quote values; its class says enough.
            hint = "Was `manage.py migrate` run, and does the database answer?"
            raise CommandError(f"nothing was changed: {type(error).__name__}. {hint}") from None
        except CryptoError as error:
            raise CommandError(f"nothing was changed: {error}") from error
        for warning in report.warnings:
            self.stderr.write(f"warning: {warning}")
        for line in report_lines(report):
            self.stdout.write(line)
