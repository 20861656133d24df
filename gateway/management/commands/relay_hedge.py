"""`manage.py relay_hedge`: races gateways from a terminal (`gateway.hedge`)."""

import asyncio
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway.hedge import DELAY_S, FALLBACK_S, FIRST_EVENT_S, IDLE_S, Patience, Raced, race
from gateway.management.ad_hoc import ANYWHERE, key_from_environment, url_channel
from gateway.probe import PROMPT
from relay.core.end_reasons import SUCCESSFUL
from relay.core.types import Channel

_SECONDS = (
    ("delay", DELAY_S, "without a valid event, until the next gateway is asked as well"),
    ("first-event", FIRST_EVENT_S, "longest wait for headers, and for the first valid event"),
    ("idle", IDLE_S, "longest wait between two pieces of the answer"),
    ("fallback", FALLBACK_S, "longest wait for the whole answer that is asked for last"),
)


class Command(BaseCommand):
    help = (
        "Ask a gateway, and when it is late another one beside it. The answer of whichever proves itself "
        "first goes to stdout, what became of each to stderr."
    )
    requires_system_checks: list[str] = []  # noqa: RUF012  Django declares it as an instance attribute

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--base",
            action="append",
            required=True,
            metavar="URL",
            help="a gateway; give two or more, in order",
        )
        parser.add_argument(
            "--key-env",
            action="append",
            default=[],
            metavar="NAME",
            help="the environment variable that holds the key; once for all, or once for each --base",
        )
        parser.add_argument("--model", required=True, help="the model to ask")
        parser.add_argument("--prompt", default=PROMPT, help="what to ask (default: one short question)")
        for name, default, words in _SECONDS:
            meaning = f"{words} (default: %(default)s)"
            parser.add_argument(f"--{name}", type=float, default=default, metavar="SECONDS", help=meaning)

    def handle(self, *_args: Any, **options: Any) -> None:
        gateways = _gateways(options["base"], options["key_env"])
        raced = asyncio.run(
            race(
                gateways,
                options["model"],
                options["prompt"],
                _patience(options),
                write=self._write,
                allowed_private_nets=ANYWHERE,
            )
        )
        for line in _lines(raced, gateways):
            self.stderr.write(line)
        if raced.outcome.end_reason not in SUCCESSFUL:
            sys.exit(1)

    def _write(self, data: bytes) -> None:
        self.stdout.write(data.decode("utf-8", "replace"), ending="")
        self.stdout.flush()


def _gateways(bases: list[str], variables: list[str]) -> list[Channel]:
    if len(bases) < 2:
        raise CommandError("--base: a race needs two gateways or more.")
    if len(set(bases)) < len(bases):
        raise CommandError("--base: the same gateway is named twice.")
    if len(variables) not in {0, 1, len(bases)}:
        raise CommandError("--key-env: once for all gateways, or once for each --base.")
    keys = [key_from_environment("--key-env", variable) for variable in variables or (None,)]
    if len(keys) == 1:
        keys *= len(bases)
    return [
        url_channel("--base", base, "openai", key, number)
        for number, (base, key) in enumerate(zip(bases, keys, strict=True), 1)
    ]


def _patience(options: dict[str, Any]) -> Patience:
    for name, _default, _words in _SECONDS:
        if not 0.01 <= options[name.replace("-", "_")] <= 3600:
            raise CommandError(f"--{name}: between 0.01 and 3600 seconds.")
    return Patience(
        delay_s=options["delay"],
        first_event_s=options["first_event"],
        idle_s=options["idle"],
        fallback_s=options["fallback"],
    )


def _lines(raced: Raced, gateways: list[Channel]) -> list[str]:
    by_id = {gateway.id: gateway.base_url for gateway in gateways}
    lines = []
    for attempt in raced.outcome.attempts:
        first = "-" if attempt.first_event_ms is None else f"{attempt.first_event_ms:.0f} ms"
        how = "streamed" if attempt.stream_sent else "whole"
        status = f", status {attempt.status}" if attempt.status else ""
        answered = ", answered" if attempt.committed else ""
        lines.append(
            f"{attempt.number}  {by_id[attempt.channel_id]}  {how}, first event {first}{status}: "
            f"{attempt.end_reason}{answered}"
        )
    return [*lines, raced.told] if raced.told else lines
