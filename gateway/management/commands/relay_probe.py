"""`manage.py relay_probe`: asks one upstream once and says in words what is wrong (`gateway.probe`)."""

import asyncio
import sys
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from channels_admin.snapshots import load_channel
from gateway.management.ad_hoc import ANYWHERE, Networks, key_from_environment, url_channel
from gateway.probe import PATIENCE_S, PROMPT, Finding, Question, Verdict, probe
from relay.core.types import Channel
from relay.core.upstream_kinds import UPSTREAM_KINDS

_TELLING = frozenset({Verdict.REJECTED, Verdict.ERROR_IN_200})
"""Where the upstream has said something itself."""


class Command(BaseCommand):
    help = "Ask an upstream once, through the gateway's engine: times of each step, end reason, verdict."
    requires_system_checks: list[str] = []  # noqa: RUF012  Django declares it as an instance attribute

    def add_arguments(self, parser: CommandParser) -> None:
        target = parser.add_mutually_exclusive_group(required=True)
        target.add_argument("--base-url", metavar="URL", help="any upstream, as http://127.0.0.1:4030")
        target.add_argument("--channel", metavar="NAME", help="a configured channel, enabled or not")
        parser.add_argument("--key-env", metavar="NAME", help="the environment variable that holds its key")
        parser.add_argument(
            "--kind", default="openai", choices=sorted(UPSTREAM_KINDS), help="what the base URL speaks"
        )
        parser.add_argument("--model", help="the model to ask; a channel's first named one by default")
        parser.add_argument("--no-stream", action="store_true", help="ask for one whole answer")
        parser.add_argument("--prompt", default=PROMPT, help="what to ask (default: one short question)")
        parser.add_argument(
            "--patience",
            type=float,
            default=PATIENCE_S,
            metavar="SECONDS",
            help="longest wait for each step (default: %(default)s)",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *_args: Any, **options: Any) -> None:
        if not 0.1 <= options["patience"] <= 3600:
            raise CommandError("--patience: between 0.1 and 3600 seconds.")
        channel, networks = _target(options)
        question = Question(
            model=options["model"] or _model_of(channel),
            is_streamed=not options["no_stream"],
            prompt=options["prompt"],
            patience_s=options["patience"],
        )
        finding = asyncio.run(probe(channel, question, networks))
        if options["json"]:
            self.stdout.write(msgspec.json.format(msgspec.json.encode(_fields(finding)), indent=2).decode())
        else:
            for line in _lines(channel, question, finding):
                self.stdout.write(line)
        if not finding.is_sound:
            sys.exit(1)


def _target(options: dict[str, Any]) -> tuple[Channel, Networks]:
    if options["channel"] is None:
        secret = key_from_environment("--key-env", options["key_env"])
        return url_channel("--base-url", options["base_url"], options["kind"], secret), ANYWHERE
    if options["key_env"] is not None:
        raise CommandError("--key-env belongs to --base-url: a channel has keys of its own.")
    channel = load_channel(options["channel"])
    if channel is None:
        raise CommandError(f"There is no channel {options['channel']!r}.")
    if not channel.keys:
        raise CommandError(f"Channel {channel.name} has no upstream key.")
    return channel, settings.UPSTREAM_ALLOWED_PRIVATE_NETS


def _model_of(channel: Channel) -> str:
    named = [name for name in channel.models if "*" not in name]
    if not named:
        raise CommandError("--model is needed: the channel names no model, only patterns.")
    return named[0]


def _lines(channel: Channel, question: Question, finding: Finding) -> list[str]:
    attempt, usage = finding.attempt, finding.attempt.usage
    how = "streamed" if question.is_streamed else "whole"
    status = f", status {attempt.status}" if attempt.status else ""
    counts = f"input {usage.input}, output {usage.output}" if usage else "none"
    lines = [
        f"upstream     {channel.base_url}, model {attempt.model_sent}, {how}",
        f"connect      {_ms(attempt.connect_ms)}",
        f"headers      {_ms(attempt.header_ms)}{status}",
        f"first event  {_ms(attempt.first_event_ms)}",
        f"end          {_ms(attempt.duration_ms)}, {attempt.events} events, {attempt.bytes} bytes",
        f"usage        {counts}",
        f"end reason   {attempt.end_reason}" + (f" ({attempt.error_class})" if attempt.error_class else ""),
    ]
    if finding.told and finding.verdict in _TELLING:
        lines.append(f"client told  {finding.told}")
    return [*lines, f"verdict      {finding.verdict}: {finding.words}"]


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"


def _fields(finding: Finding) -> dict[str, object]:
    attempt = finding.attempt
    return {
        "verdict": finding.verdict,
        "words": finding.words,
        "sound": finding.is_sound,
        "told": finding.told,
        "end_reason": attempt.end_reason,
        "error_class": attempt.error_class,
        "status": attempt.status,
        "model": attempt.model_sent,
        "connect_ms": attempt.connect_ms,
        "header_ms": attempt.header_ms,
        "first_event_ms": attempt.first_event_ms,
        "duration_ms": attempt.duration_ms,
        "events": attempt.events,
        "bytes": attempt.bytes,
        "finish_reasons": attempt.finish_reasons,
        "terminal_seen": attempt.terminal_seen,
        "soft_errors": attempt.soft_error_count,
        "usage": attempt.usage,
    }
