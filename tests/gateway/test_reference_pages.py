"""The reference pages in docs/: as the tables in code say, complete, and honest about what has no effect."""

import re
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from channels_admin.flags import FLAGS
from gateway.reference import PAGES, settings
from gateway.reference.end_reasons import WITHOUT_CAUSE
from gateway.reference.settings import ENVIRONMENT_WITHOUT_EFFECT, FLAGS_WITHOUT_EFFECT
from gateway.settings.environment import Environment
from gateway.simulator import all_behaviours
from relay.core.end_reasons import EndReason
from relay.core.stream_state import TIMERS, Limits
from relay.core.types import StreamPolicy

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NAMING_ONLY = {
    "gateway/reference/settings.py",
    "gateway/reference/end_reasons.py",
    "gateway/settings/environment.py",
    "gateway/settings/relay.py",
    "channels_admin/flags.py",
    "relay/core/end_reasons.py",
}
"""Files that list names without obeying them."""


def _sources() -> dict[str, str]:
    files = [
        path
        for app in ("gateway", "billing", "channels_admin", "relay")
        for path in (ROOT / app).rglob("*.py")
    ]
    return {
        name: path.read_text()
        for path in files
        if (name := str(path.relative_to(ROOT))) not in NAMING_ONLY and "/migrations/" not in name
    }


def _users(name: str) -> list[str]:
    return [path for path, text in _sources().items() if re.search(rf"\b{name}\b|\.{name.lower()}\b", text)]


def _cells(page: str, column: int) -> list[str]:
    return [line.split(" | ")[column] for line in PAGES[page]().splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_what_the_tables_say(name):
    committed = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert committed == PAGES[name](), "run `manage.py reference --write`"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_holds_nothing_of_this_machine(name, monkeypatch):
    monkeypatch.setenv("DATA_DIR", "/somewhere/else")
    assert str(ROOT) not in PAGES[name]()
    assert "/somewhere/else" not in PAGES[name]()


@pytest.mark.parametrize("name", PAGES)
def test_every_row_of_a_table_has_as_many_cells_as_its_head(name):
    head = 0
    for line in PAGES[name]().splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line))
        head = 0 if not line.startswith("|") else head or cells
        assert not head or cells == head, line


def test_every_setting_and_flag_is_on_the_settings_page():
    named = set(re.findall(r"`([A-Z_]+)`", " ".join(_cells("settings", 0))))
    assert named == set(Environment.model_fields) | set(FLAGS)


def test_every_end_reason_has_its_row():
    assert re.findall(r"`(\w+)`", " ".join(_cells("end-reasons", 0))) == [
        reason.value for reason in EndReason
    ]


def test_every_behaviour_has_its_row():
    named = re.findall(r"`(\S+)`", " ".join(_cells("simulator", 0)))
    assert named == [row.pattern for row in all_behaviours()]


def test_every_timer_has_its_row_with_the_default_that_is_in_force():
    page = PAGES["timers"]()
    upstream = page[page.index("## Upstream") : page.index("## Client")]
    assert upstream.count("\n| ") == 2 + sum(len(rows) for rows in TIMERS.values())
    policy, limits = StreamPolicy(), Limits()
    assert f"`total_timeout_seconds`, {policy.total_timeout_s:,.0f} s" in upstream
    assert f"`connect_timeout_seconds`, {limits.connect_s:.0f} s | `connect_failed`" in upstream
    assert f"fixed, {limits.first_byte_s:.0f} s | `first_byte_timeout`" in upstream


def test_the_mark_is_explained_where_it_is_made(monkeypatch):
    assert "†" not in PAGES["settings"]()
    monkeypatch.setattr(settings, "FLAGS_WITHOUT_EFFECT", frozenset({"RETRY_TIMES"}))
    assert PAGES["settings"]().count("†") == 2
    assert "†" not in PAGES["timers"]()


def test_flags_marked_without_effect_are_obeyed_by_nobody():
    # The service that switches the ranges off with the switch obeys nothing.
    switches = {"channels_admin/services/runtime_flags.py"}
    assert {name: users for name in FLAGS_WITHOUT_EFFECT if (users := set(_users(name)) - switches)} == {}


def test_a_flag_that_is_obeyed_would_be_noticed():
    assert "relay/core/failover.py" in _users("RETRY_TIMES")


def _readers(setting: str) -> list[str]:
    return [path for path, text in _sources().items() if re.search(rf"settings\.{setting}\b", text)]


def test_settings_marked_without_effect_are_read_by_nobody():
    assert _readers("DATA_DIR"), "a reader would be noticed"
    assert {name: paths for name in ENVIRONMENT_WITHOUT_EFFECT if (paths := _readers(name))} == {}


@pytest.mark.parametrize("reason", sorted(WITHOUT_CAUSE))
def test_an_end_reason_marked_without_cause_is_decided_by_nobody(reason):
    """`case` branches only say what the client would be told."""
    decided = re.compile(rf"^(?!.*\bcase\b).*EndReason\.{reason.name}\b", re.MULTILINE)
    assert [path for path, text in _sources().items() if decided.search(text)] == []


def test_the_command_prints_one_page():
    out = StringIO()
    call_command("reference", "timers", stdout=out)
    assert out.getvalue().rstrip() == PAGES["timers"]().rstrip()


def test_the_command_refuses_a_page_that_is_not_there():
    with pytest.raises(CommandError, match="No such page: tiners"):
        call_command("reference", "tiners")


def test_the_command_writes_where_the_pages_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("gateway.management.commands.reference.BASE_DIR", tmp_path)
    call_command("reference", "--write", stdout=StringIO())
    assert {path.stem for path in (tmp_path / "docs").iterdir()} == set(PAGES)
