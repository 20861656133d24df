"""Container, compose, systemd and proxy files: what the gateway needs of them, and that they hold no secret."""

import configparser
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from billing.schedule import BEAT_SCHEDULE
from gateway.front.server import KEEP_ALIVE_TIMEOUT_S, SHUTDOWN_NET_S
from gateway.settings.environment import Environment
from relay.core.stream_state import KEEPALIVE_S

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = ("sluice.service", "sluice-worker.service", "sluice-beat.service")
ENDING_S = SHUTDOWN_NET_S + 10 + 10
"""Behind the grace: what is cancelled, then the engine and the courier, which take 10 s each at most."""


def _default(name: str) -> float:
    return float(Environment.model_fields[name].default)


def _needed_to_stop() -> float:
    return _default("READY_DELAY_SECONDS") + _default("SHUTDOWN_GRACE_SECONDS") + ENDING_S


def _active(text: str) -> str:
    """Without comments."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def _unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(DEPLOY / name)
    return parser


def test_compose_runs_every_part(compose):
    assert set(compose["services"]) == {"migrate", "gateway", "worker", "beat", "postgres", "redis"}


def test_compose_holds_no_secret(compose):
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("KEY|PASSWORD|SECRET", name):
                assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), name
            assert not re.search(r"://[^/@:]*:[^$@][^@]*@", str(value)), name


def test_compose_gives_streams_their_time_to_end(compose):
    default = re.fullmatch(r"\$\{STOP_GRACE:-(\d+)s\}", compose["services"]["gateway"]["stop_grace_period"])
    assert default
    assert int(default[1]) > _needed_to_stop()


def test_redis_keeps_what_it_is_given(compose):
    command = compose["services"]["redis"]["command"]
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_only_the_gateway_is_published_and_only_to_this_host(compose):
    published = {
        name: service["ports"] for name, service in compose["services"].items() if "ports" in service
    }
    assert published == {"gateway": ["${LISTEN:-127.0.0.1:8000}:8000"]}


@pytest.mark.parametrize("name", ["gateway", "worker", "beat"])
def test_nothing_of_ours_starts_on_an_old_schema(compose, name):
    assert compose["services"][name]["depends_on"]["migrate"] == {
        "condition": "service_completed_successfully"
    }


def test_the_image_is_pinned_hashed_and_not_root():
    lines = _active((ROOT / "Dockerfile").read_text())
    assert "--require-hashes -r /tmp/base.txt" in lines
    users = re.findall(r"^USER (\S+)", lines, re.MULTILINE)
    assert users
    assert users[-1] not in {"root", "0"}
    assert lines.index("USER sluice") < lines.index('CMD ["python", "manage.py"')
    # Exec form: a shell as the first process would not pass SIGTERM on.
    assert re.search(r'^CMD \["python", "manage.py", "serve"', lines, re.MULTILINE)


def test_the_image_gets_every_package_and_nothing_else():
    roots = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    assert allowed == {*roots, "static", "templates", "manage.py", "requirements/base.txt"}


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_no_root_and_finds_its_settings(name):
    service = _unit(name)["Service"]
    assert service["User"] == "sluice"
    assert service["EnvironmentFile"] == "/etc/sluice/env"
    assert service["NoNewPrivileges"] == "yes"


def test_the_gateway_unit_gives_streams_their_time_to_end():
    assert float(_unit("sluice.service")["Service"]["TimeoutStopSec"]) > _needed_to_stop()


@pytest.mark.parametrize("name", ["sluice.service", "sluice-worker.service"])
def test_only_the_parent_is_signalled(name):
    """A second SIGTERM, from systemd beside the parent's, would cut a drain short."""
    assert _unit(name)["Service"]["KillMode"] == "mixed"


def test_beat_is_there_because_there_is_something_to_beat():
    assert BEAT_SCHEDULE
    assert " beat " in _unit("sluice-beat.service")["Service"]["ExecStart"]


def test_nginx_passes_events_on_at_once():
    text = _active((DEPLOY / "nginx.conf").read_text())
    relay = text[text.index("location ~ ^/v1") :]
    relay = relay[: relay.index("}")]
    assert "proxy_buffering off;" in relay
    assert "gzip off;" in relay
    assert "proxy_http_version 1.1;" in text
    assert "X-Forwarded-For" in text
    # A path behind the address would make nginx decode and re-encode what clients sent.
    assert set(re.findall(r"proxy_pass ([^;]+);", text)) == {"http://sluice"}


def test_nginx_waits_longer_than_a_silence_lasts_and_drops_connections_first():
    text = _active((DEPLOY / "nginx.conf").read_text())
    assert int(re.search(r"proxy_read_timeout (\d+)s", text)[1]) > 4 * KEEPALIVE_S
    assert int(re.search(r"keepalive_timeout (\d+)s", text)[1]) < KEEP_ALIVE_TIMEOUT_S


def test_caddy_is_not_told_to_read_on_for_clients_that_left():
    """`flush_interval -1` also keeps Caddy from ending a request whose client has gone."""
    text = _active((DEPLOY / "Caddyfile").read_text())
    assert "reverse_proxy 127.0.0.1:8000" in text
    assert "flush_interval" not in text
    assert int(re.search(r"keepalive (\d+)s", text)[1]) < KEEP_ALIVE_TIMEOUT_S


def test_the_example_environment_names_settings_that_exist_and_no_value_of_a_secret():
    compose_text = (ROOT / "compose.yaml").read_text()
    for line in (DEPLOY / "env.example").read_text().splitlines():
        match = re.fullmatch(r"#?([A-Z_]+)=(.*)", line)
        if not match:
            continue
        name, value = match.groups()
        assert name in Environment.model_fields or f"${{{name}:" in compose_text, name
        if re.search("KEY|PASSWORD|SECRET", name):
            assert not value, name


def test_pre_commit_runs_what_make_check_runs():
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    steps = {line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()}
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    hooks = {hook["entry"].replace("--force-exclude", ".") for hook in config["repos"][0]["hooks"]}
    assert hooks == steps
