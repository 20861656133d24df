"""`manage.py where ID`: asks every place where a relay request can be. Takes no lock, changes nothing."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from billing.selectors.whereabouts import request_ids_of, whereabouts


class Command(BaseCommand):
    help = "Tell where a relay request is: store, rows, ledger, dead outcomes, spools."
    requires_system_checks: list[str] = []  # noqa: RUF012  Django declares it as an instance attribute

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "id", help="the request's id (X-Request-Id), or the id an upstream gave to an attempt"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            found = {request_id: whereabouts(request_id) for request_id in request_ids_of(options["id"])}
        except DatabaseError as error:
            # The driver's text can quote values; its class says enough.
            raise CommandError(f"the database does not answer: {type(error).__name__}") from None
        for request_id, findings in found.items():
            self.stdout.write(f"request {request_id}")
            for finding in findings:
                self.stdout.write(f"  {finding.place}: {finding.text}")
        if not any(found.values()):
            raise CommandError("nobody knows this request: it was refused, or deleted, or never here")
