"""Times every list and report on a generated database, and shows the plan of each one's slowest statement.

    DATABASE_URL=postgres://… python -m tests.scale.measure [--only WORDS] [--plans FILE]

Five times each after one to warm up, medians. What counts is the page's own time: the CPU of this process and
the statements as they were waited for; the wall clock beside it has the neighbours of a shared machine in it. Changes nothing but one user and its session.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT_MS = 300
RUNS = 5


@dataclass(slots=True)
class Heard:
    """Statements of one page: SQL, parameters, milliseconds."""

    statements: list[tuple[str, Any, float]] = field(default_factory=list)

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        begin = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            self.statements.append((sql, params, (time.perf_counter() - begin) * 1000))

    @property
    def waited_ms(self) -> float:
        return sum(one[2] for one in self.statements)

    @property
    def slowest(self) -> tuple[str, Any, float]:
        reads = [one for one in self.statements if "SELECT" in one[0][:60] and "django_session" not in one[0]]
        return max(reads, key=lambda one: one[2])


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    import django  # noqa: PLC0415

    django.setup()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--plans", type=Path)
    asked = parser.parse_args()
    slow = measure(asked.only, asked.plans)
    print(f"\n{slow} over {LIMIT_MS} ms")  # noqa: T201  a command


def measure(only: str, plans: Path | None) -> int:
    """How many took longer than they may."""
    from django.conf import settings  # noqa: PLC0415  needs Django to be set up

    from tests.scale.pages import pages  # noqa: PLC0415

    settings.ALLOWED_HOSTS = ["testserver"]
    slow, texts = 0, []
    print("| page | ms | of it statements | wall clock |\n|---|---|---|---|")  # noqa: T201
    for page in pages(client()):
        if only not in page.name:
            continue
        own_ms, statements_ms, wall_ms, heard = _timed(page.ask)
        sql, params, _ = heard.slowest
        slow += own_ms > LIMIT_MS
        mark = " **slow**" if own_ms > LIMIT_MS else ""
        print(f"| {page.name} | {own_ms:.0f}{mark} | {statements_ms:.0f} | {wall_ms:.0f} |", flush=True)  # noqa: T201
        if plans:
            texts.append(f"## {page.name}\n\n```\n{plan_text(sql, params)}\n```\n")
    if plans:
        plans.write_text("\n".join(texts))
    return slow


def client() -> Any:
    from django.contrib.auth.models import User  # noqa: PLC0415  as above
    from django.test import Client  # noqa: PLC0415

    user, _made = User.objects.get_or_create(username="scale", is_staff=True, is_superuser=True)
    made = Client()
    made.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return made


def _timed(ask: Callable[[], Any]) -> tuple[float, float, float, Heard]:
    """Own time, that of its statements, and wall clock, in milliseconds."""
    from django.db import connection  # noqa: PLC0415  as above

    figures, heard = [], Heard()
    for _run in range(RUNS + 1):
        heard = Heard()
        with connection.execute_wrapper(heard):
            begin, cpu = time.perf_counter(), time.process_time()
            ask()
            wall_ms, cpu_ms = ((time.perf_counter() - begin) * 1000, (time.process_time() - cpu) * 1000)
        figures.append((cpu_ms + heard.waited_ms, heard.waited_ms, wall_ms))
        if wall_ms > 5_000:
            break
    own, statements, wall = (
        statistics.median(column) for column in zip(*(figures[1:] or figures), strict=True)
    )
    return own, statements, wall, heard


def plan_text(sql: str, params: Any) -> str:
    from django.db import connection  # noqa: PLC0415  as above

    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {sql}", params)
        return "\n".join(line for (line,) in cursor.fetchall())


if __name__ == "__main__":
    main()
