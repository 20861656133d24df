"""Two rehearsals that a load generator cannot do: many quiet streams, and many clients that never read.

    scenarios.py idle                      1,000 streams, an event every 40 s: keepalives every 15 s?
    scenarios.py stuck                     500 clients that never read a firehose: memory flat, all ended?

Without --target the gateway is started as in bench.py. With it: a server that runs already, whose channel
leads to the mock of `bench.py --hold`. Exit code 1 if something was not as it should be.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script: its own folder is the path

from tests.bench.clients import QuietClient, StuckClients, request_bytes
from tests.bench.machine import (
    choose_cores,
    cpu_seconds,
    process_tree,
    raise_file_limit,
    rss_kb,
    socket_count,
)
from tests.bench.processes import HarnessError, Processes, say
from tests.bench.stack import CHAT_PATH, add_gateway, add_raw, chat_body, start_mock

EVENT_EVERY_S = 40
KEEPALIVE_S = 15.0
KEEPALIVE_SLACK_S = 1.5  # a thousand timers on a busy core, seen from a busy core
OPEN_PER_SECOND = 500
CLOSE_WITHIN_S = 5.0
FLAT_WINDOW_S = 20
FLAT_GROWTH_KB = 8 * 1024
STUCK_KB_EACH = 2048  # a bounded queue of 1 MiB and the buffers on both sides of it
SPARE_SOCKETS = 4  # pollers of the stores may come and go


@dataclass(frozen=True, slots=True)
class Place:
    """The server under rehearsal."""

    host: str
    port: int
    key: str
    pid: int

    def pids(self) -> list[int]:
        return process_tree(self.pid)


class Findings:
    """Statements with a verdict each."""

    def __init__(self) -> None:
        self.all_well = True

    def expect(self, statement: str, holds: bool) -> None:
        self.all_well &= holds
        say(f"{'pass' if holds else 'FAIL'}  {statement}")


def expected_comments(seconds: float, event_every_s: float, keepalive_s: float, slack_s: float) -> int:
    """Keepalives one stream must have shown by then: each falls due `keepalive_s` after the last byte."""
    due, count = keepalive_s, 0
    while due + slack_s <= seconds:
        into_gap = due % event_every_s
        if into_gap < keepalive_s:  # an event came first and restarted the count
            due += keepalive_s - into_gap
            continue
        count += 1
        due += keepalive_s
    return count


def percentiles(values: list[float]) -> str:
    ordered = sorted(values)
    if not ordered:
        return "none"
    return f"min {ordered[0]:.2f}, median {ordered[len(ordered) // 2]:.2f}, max {ordered[-1]:.2f}"


async def _until(holds: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if holds():
            return True
        await asyncio.sleep(0.2)
    return holds()


async def rehearse_idle(place: Place, streams: int, seconds: float, findings: Findings) -> None:
    """Opens `streams`, watches each for `seconds`, leaves, and looks at what is left behind."""
    loop = asyncio.get_running_loop()
    sockets_before, idle_kb = socket_count(place.pids()), rss_kb(place.pids())
    request = request_bytes(
        place.host, CHAT_PATH, place.key, chat_body(f"mock-9-{EVENT_EVERY_S * 1000}", stream=True)
    )
    clients: list[QuietClient] = []
    for number in range(streams):
        _, client = await loop.create_connection(lambda: QuietClient(request), place.host, place.port)
        clients.append(client)
        if number % 10 == 9:
            await asyncio.sleep(10 / OPEN_PER_SECOND)
    used, since = cpu_seconds(place.pids()), time.monotonic()
    await asyncio.sleep(seconds)
    cpu = (cpu_seconds(place.pids()) - used) / (time.monotonic() - since)
    open_kb = rss_kb(place.pids()) - idle_kb
    say(f"{streams} streams: {cpu:.1%} of a core while quiet, {open_kb / streams:.1f} KB each")
    say(f"first event after, s: {percentiles([c.events[0] - c.asked_at for c in clients if c.events])}")
    gaps = [gap for client in clients for gap in client.comment_gaps()]
    say(f"{len(gaps)} keepalives; seconds since the byte before: {percentiles(gaps)}")
    _judge_idle(clients, seconds, findings)
    for client in clients:
        client.leave()
    closed = await _until(
        lambda: socket_count(place.pids()) <= sockets_before + SPARE_SOCKETS, CLOSE_WITHIN_S
    )
    left = socket_count(place.pids()) - sockets_before
    findings.expect(f"no socket left {CLOSE_WITHIN_S:.0f} s after all clients left ({left:+d})", closed)


def _judge_idle(clients: list[QuietClient], seconds: float, findings: Findings) -> None:
    events = 1 + int(seconds // EVENT_EVERY_S)
    comments = expected_comments(seconds, EVENT_EVERY_S, KEEPALIVE_S, KEEPALIVE_SLACK_S)
    gaps = [gap for client in clients for gap in client.comment_gaps()]
    with_events = sum(len(client.events) >= events for client in clients)
    with_comments = sum(len(client.comments) >= comments for client in clients)
    alive = sum(client.status == 200 and not client.closed for client in clients)
    findings.expect(f"{alive} of {len(clients)} streams open with status 200", alive == len(clients))
    findings.expect(f"{with_events} had their {events} events", with_events == len(clients))
    findings.expect(f"{with_comments} had their {comments} keepalives", with_comments == len(clients))
    on_time = bool(gaps) and all(abs(gap - KEEPALIVE_S) <= KEEPALIVE_SLACK_S for gap in gaps)
    findings.expect(
        f"each keepalive {KEEPALIVE_S:.0f} ± {KEEPALIVE_SLACK_S} s after the byte before", on_time
    )


async def rehearse_stuck(place: Place, clients: int, limit_s: float, findings: Findings) -> None:
    """Opens clients that ask and never read; watches memory each second until the server has ended all."""
    sockets_before, idle_kb = socket_count(place.pids()), rss_kb(place.pids())
    request = request_bytes(place.host, CHAT_PATH, place.key, chat_body("mock-100000-0", stream=True))
    stuck = StuckClients(place.host, place.port, request)
    memory: list[int] = []
    half_ended_at = 0
    try:
        started = time.monotonic()
        for number in range(clients):
            stuck.open_one()
            if number % 10 == 9:
                await asyncio.sleep(10 / OPEN_PER_SECOND)
        while len(stuck.ended_after) < clients and time.monotonic() - started < limit_s:
            await asyncio.sleep(1)
            memory.append(rss_kb(place.pids()))
            stuck.look()
            if len(stuck.ended_after) < clients / 2:
                half_ended_at = len(memory)
            if len(memory) % 10 == 0:
                say(f"{len(memory):4d} s  {memory[-1] / 1024:7.1f} MB  {len(stuck.ended_after)} ended")
    finally:
        ended = stuck.close()
    each_kb = (max(memory) - idle_kb) / clients
    # By then the buffers have long been full: a server that goes on reading for them grows on and on.
    window = memory[max(0, half_ended_at - FLAT_WINDOW_S) : max(half_ended_at, 1)]
    growth = window[-1] - window[0]
    say(f"ended after, s since the request: {percentiles(ended)}")
    findings.expect(f"{len(ended)} of {clients} ended by the server", len(ended) == clients)
    findings.expect(f"at most {each_kb:.0f} KB each (≤ {STUCK_KB_EACH})", each_kb <= STUCK_KB_EACH)
    flat = growth <= FLAT_GROWTH_KB
    findings.expect(
        f"memory flat with full buffers ({growth:+d} KB in {len(window)} s before half were ended)", flat
    )
    closed = await _until(
        lambda: socket_count(place.pids()) <= sockets_before + SPARE_SOCKETS, CLOSE_WITHIN_S
    )
    left = socket_count(place.pids()) - sockets_before
    findings.expect(f"no socket left afterwards ({left:+d})", closed)


def read_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", choices=("idle", "stuck", "all"))
    parser.add_argument(
        "--target", default="", help="base URL of a running server; default: start the gateway"
    )
    parser.add_argument("--pid", type=int, default=0, help="its process id")
    parser.add_argument("--key", default="none", help="its API key")
    parser.add_argument(
        "--raw", action="store_true", help="start the raw pass-through instead, to try the script"
    )
    parser.add_argument("--streams", type=int, default=1000, help="quiet streams (default %(default)s)")
    parser.add_argument(
        "--clients", type=int, default=500, help="clients that never read (default %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=50.0, help="how long the quiet streams are watched")
    parser.add_argument(
        "--limit", type=float, default=180.0, help="seconds by which all stuck clients must be ended"
    )
    options = parser.parse_args(arguments)
    if options.target and not options.pid:
        parser.error("--target needs --pid: memory and sockets are read from it")
    return options


def rehearse(place: Place, options: argparse.Namespace) -> bool:
    findings = Findings()
    if options.scenario in {"idle", "all"}:
        say(f"\n{options.streams} quiet streams for {options.seconds:.0f} s")
        asyncio.run(rehearse_idle(place, options.streams, options.seconds, findings))
    if options.scenario in {"stuck", "all"}:
        say(f"\n{options.clients} clients that never read")
        asyncio.run(rehearse_stuck(place, options.clients, options.limit, findings))
    return findings.all_well


def run(options: argparse.Namespace) -> bool:
    raise_file_limit()
    if options.target:
        parts = urlsplit(options.target)
        return rehearse(
            Place(parts.hostname or "127.0.0.1", parts.port or 80, options.key, options.pid), options
        )
    with tempfile.TemporaryDirectory(prefix="sluice-bench-logs-") as logs, Processes(Path(logs)) as processes:
        cores = choose_cores()
        os.sched_setaffinity(0, {cores.load})
        stack = start_mock(processes, cores)
        target = add_raw(stack) if options.raw else add_gateway(stack)
        parts = urlsplit(target.url)
        return rehearse(Place("127.0.0.1", parts.port or 80, target.key, target.pids()[0]), options)


def main() -> int:
    try:
        return 0 if run(read_options(sys.argv[1:])) else 1
    except HarnessError as error:
        say(f"scenarios: {error}")
        return 2
    except KeyboardInterrupt:
        say("\nscenarios: interrupted, everything ended")
        return 130


if __name__ == "__main__":
    sys.exit(main())
