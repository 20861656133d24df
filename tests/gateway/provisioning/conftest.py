"""`apply(text)` runs a file's text against the test database."""

import ipaddress
from collections.abc import Callable

import pytest

from gateway.provisioning import Report, apply_text
from tests.gateway.provisioning.samples import ENVIRON


@pytest.fixture(autouse=True)
def _loopback_is_allowed(settings):
    """With services in the environment it is not, by default."""
    settings.UPSTREAM_ALLOWED_PRIVATE_NETS = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.fixture
def apply(db) -> Callable[..., Report]:
    def run(text: str, *, is_dry_run: bool = False) -> Report:
        return apply_text(text, name="t.yaml", is_dry_run=is_dry_run, environ=ENVIRON)

    return run
