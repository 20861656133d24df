"""The command: its output, its exit code, a dry run, and two of them at once."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from channels_admin.models import ApiKey, Channel, RuntimeFlag, Tenant
from channels_admin.selectors import config_version
from tests.gateway.provisioning.samples import API_KEY_CANARY, ENVIRON, FULL, UPSTREAM_CANARY

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run(db, tmp_path, monkeypatch):
    """Runs `apply` on the text; what it wrote to both streams."""
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)

    def run(text: str, *options: str) -> str:
        path = tmp_path / "t.yaml"
        path.write_text(text)
        out = io.StringIO()
        call_command("apply", str(path), *options, stdout=out, stderr=out)
        return out.getvalue()

    return run


def test_it_tells_what_it_does(run):
    lines = run(FULL).splitlines()
    assert "create     price *: cached_input 0.5, input 1, output 2" in lines
    assert "6 created, 4 changed, 0 unchanged" in lines
    assert lines[-2] == "New API keys, shown this once:"
    assert lines[-1].startswith("  tenant demo, second: sk-")
    again = run(FULL).splitlines()
    assert again[-1] == "nothing to change"
    assert all(line.startswith("unchanged  ") for line in again[:-1])


def test_a_change_is_told_as_old_and_new(run):
    run(FULL)
    assert "change     channel main: priority 10 → 20" in run("channels: [{name: main, priority: 20}]")


def test_a_dry_run_changes_nothing_and_shows_no_key(run):
    before = config_version()
    out = run(FULL, "--dry-run")
    assert "create     tenant demo" in out
    assert out.splitlines()[-1] == "dry run, nothing was changed; would be 6 created, 4 changed, 0 unchanged"
    assert config_version() == before
    assert not any(model.objects.exists() for model in (Channel, Tenant, ApiKey))
    assert not RuntimeFlag.objects.exclude(value=None).exists()


def test_no_secret_is_written(run):
    out = run(FULL, "--dry-run") + run(FULL) + run(FULL)
    out += run("channels: [{name: main, header_overrides: {X-Gate: a-canary-header}}]")
    for canary in (UPSTREAM_CANARY, API_KEY_CANARY, "a-canary-header"):
        assert canary not in out


def test_problems_come_one_a_line_with_the_files_name(run, tmp_path):
    with pytest.raises(CommandError) as caught:
        run("channels: [{name: c, base_ulr: x}]\nflags: {NOSUCH: 1}")
    assert str(caught.value).splitlines() == [
        "refused, nothing was changed:",
        f"{tmp_path}/t.yaml: channels[0].base_ulr: unknown field (did you mean base_url?)",
        f"{tmp_path}/t.yaml: flags.NOSUCH: no such runtime flag",
    ]


@pytest.mark.parametrize(("content", "told"), [(None, "No such file"), (b"\xff\xfe\x00", "is no UTF-8 text")])
def test_files_that_cannot_be_read(db, tmp_path, content, told):
    path = tmp_path / "t.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CommandError, match=told):
        call_command("apply", str(path))


def manage(data_dir: Path, *arguments: str) -> subprocess.Popen[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=kept | ENVIRON | {"DATA_DIR": str(data_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_two_processes_with_the_same_file_lead_to_one_result(tmp_path):
    """On SQLite, from nothing: without migrations a hint, then exactly one of two makes everything."""
    path = tmp_path / "t.yaml"
    path.write_text(FULL)
    early = manage(tmp_path, "apply", str(path))
    _, told = early.communicate(timeout=60)
    assert early.returncode == 1
    assert "migrate" in told
    migrating = manage(tmp_path, "migrate", "-v0")
    assert (*migrating.communicate(timeout=60), migrating.returncode) == ("", "", 0)
    both = [manage(tmp_path, "apply", str(path)) for _ in range(2)]
    outs = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], outs
    ends = sorted("New API keys" in out for out, _ in outs)
    assert ends == [False, True]
    assert sum("nothing to change" in out for out, _ in outs) == 1
