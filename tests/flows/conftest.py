"""Real sockets on the production event loop."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import uvloop

from channels_admin.services import runtime_flag_set
from relay.core.stream_state import Limits


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, Callable[[], Any]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def fixed_limits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Shortens timers that only tests may change: `fixed_limits(first_byte_s=0.5)`."""

    def shorten(**seconds: float) -> None:
        monkeypatch.setattr("relay.upstream.plan.Limits", lambda **others: Limits(**{**seconds, **others}))

    return shorten


@pytest.fixture
async def idempotent_answers(gateway: Any) -> None:
    """The gateway obeys `Idempotency-Key`."""
    await gateway.configure(runtime_flag_set, name="IDEMPOTENT_ANSWERS", value=True)
