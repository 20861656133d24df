"""Each deploy mistake has its check and id, and a right configuration none of them."""

import sys
from pathlib import Path
from typing import Any

import pytest

from gateway import checks
from gateway.settings.environment import Environment


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def set_environment(**values: Any) -> None:
        monkeypatch.setattr(checks, "ENV", Environment(**({"DATA_DIR": tmp_path} | values)))

    set_environment()
    return set_environment


def ids(check: Any) -> list[str]:
    return [message.id for message in check(None)]


@pytest.mark.parametrize(
    ("check", "values", "expected"),
    [
        (checks.check_cors_origins, {"CORS_ORIGINS": "https://a.example,*"}, []),
        (checks.check_cors_origins, {"CORS_ORIGINS": "http://localhost:3000"}, []),
        (checks.check_cors_origins, {"CORS_ORIGINS": "https://a.example/"}, ["gateway.E001"]),
        (checks.check_cors_origins, {"CORS_ORIGINS": "a.example"}, ["gateway.E001"]),
        (checks.check_data_dir, {}, []),
        (checks.check_data_dir, {"DATA_DIR": "/proc/nowhere"}, ["gateway.E003"]),
        (checks.check_trusted_proxies, {"TRUSTED_PROXIES": "10.0.0.0/8"}, []),
        (
            checks.check_trusted_proxies,
            {"TRUSTED_PROXIES": "0.0.0.0/0,::/0"},
            ["gateway.W002", "gateway.W002"],
        ),
        (checks.check_kept_secrets, {"DATABASE_URL": ""}, []),
        (
            checks.check_kept_secrets,
            {"DATABASE_URL": "postgres://h/d", "SECRET_KEY": "", "SEALING_KEYS": ""},
            ["gateway.W003", "gateway.W004"],
        ),
        (
            checks.check_kept_secrets,
            {"DATABASE_URL": "postgres://h/d", "SECRET_KEY": "s", "SEALING_KEYS": "a:b"},
            [],
        ),
        (checks.check_cookies, {"SECURE_COOKIES": False}, ["gateway.W005"]),
        (checks.check_cookies, {"SECURE_COOKIES": True}, []),
    ],
)
def test_environment(environment: Any, check: Any, values: dict[str, Any], expected: list[str]) -> None:
    environment(**values)
    assert ids(check) == expected


@pytest.mark.parametrize(
    ("argv", "database", "expected"),
    [
        (["manage.py", "runserver"], "postgres://h/d", ["gateway.W001"]),
        (["/usr/bin/daphne", "gateway.asgi:application"], "postgres://h/d", ["gateway.W001"]),
        (["manage.py", "runserver"], "", []),
        (["manage.py", "serve"], "postgres://h/d", []),
    ],
)
def test_development_server(
    environment: Any, monkeypatch: pytest.MonkeyPatch, argv: list[str], database: str, expected: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    environment(DATABASE_URL=database, REDIS_URL="")
    assert ids(checks.check_server) == expected


def test_debug_and_atomic_requests(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ids(checks.check_debug) == []
    settings.DEBUG = True
    assert ids(checks.check_debug) == ["gateway.E004"]
    assert ids(checks.check_no_atomic_requests) == []
    monkeypatch.setitem(checks.settings.DATABASES["default"], "ATOMIC_REQUESTS", True)
    assert ids(checks.check_no_atomic_requests) == ["gateway.E002"]
