"""docs/simulator.md: what the simulated upstream can be asked to do, from its table of behaviours."""

from collections.abc import Iterator
from itertools import groupby

from gateway.reference.markdown import code, page, table
from gateway.simulator import DEFAULT_HOST, DEFAULT_PORT, all_behaviours
from gateway.simulator.registry import HEADINGS

_INTRO = f"""\
The simulator is an upstream on this machine: OpenAI-, Anthropic- and Gemini-shaped, for rehearsals and
tests. The model's name chooses how it behaves. `make run` starts one and points the demo channel at it; by
itself it runs with

    .venv/bin/python manage.py simulate_upstream --host {DEFAULT_HOST} --port {DEFAULT_PORT}

`--list` prints the table below, `--require-key VALUE` makes it refuse every other credential.

- Numbers in a name are yours to choose: `stall-after-3` falls silent after three events, `stall-after-40`
  after forty.
- A name that is not in the table behaves as `echo`.
- `@label` at the end is ignored: `flaky-2@a` and `flaky-2@b` count apart.
- A channel may point at it only where `UPSTREAM_ALLOWED_PRIVATE_NETS` allows loopback; the embedded
  default does."""


def simulator_page() -> str:
    return page("Simulated upstream", _INTRO, *_subjects())


def _subjects() -> Iterator[str]:
    for subject, rows in groupby(all_behaviours(), key=lambda row: row.subject):
        yield f"## {HEADINGS[subject]}"
        yield table(
            ["Model name", "For example", "What it does"],
            [
                [code(row.pattern), code(row.example) if row.example != row.pattern else "", row.meaning]
                for row in rows
            ],
        )
