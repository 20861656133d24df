"""`apply(text)` runs a file's text against the test database."""

from collections.abc import Callable

import pytest

from gateway.provisioning import Report, apply_text
from tests.gateway.provisioning.samples import ENVIRON


@pytest.fixture
def apply(db) -> Callable[..., Report]:
    def run(text: str, *, is_dry_run: bool = False) -> Report:
        return apply_text(text, name="t.yaml", is_dry_run=is_dry_run, environ=ENVIRON)

    return run
