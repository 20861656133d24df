"""Debian's chromium, driven by Playwright, in front of a running gateway with its real console."""

import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
import uvloop
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from playwright.async_api import async_playwright

from tests.browser.console import DESKTOP, Console
from tests.factories.channels import a_staff_user
from tests.flows.gateway import Gateway

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MS = 10_000


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, Callable[[], Any]]:
    return {"uvloop": uvloop.new_event_loop}


def _session_key(role: str) -> str:
    user = a_staff_user(role)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return session.session_key


@pytest.fixture
def role() -> str:
    """Whom the browser is signed in as. Modules override it."""
    return "operator"


@pytest.fixture
async def console(gateway: Gateway, role: str) -> AsyncIterator[Console]:
    """Fails when a page complained: a script that is not allowed, a file that is missing, a foreign host."""
    if CHROMIUM is None:
        pytest.skip("no chromium here: install Debian's package `chromium`")
    session = await gateway.run(_session_key, role)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = await browser.new_context(viewport=DESKTOP, reduced_motion="reduce")
        context.set_default_timeout(PATIENCE_MS)
        await context.add_cookies(
            [{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": gateway.url}]
        )
        console = Console(gateway, context, await context.new_page())
        yield console
        await browser.close()
    assert console.complaints == []
