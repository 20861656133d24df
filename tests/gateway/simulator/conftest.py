"""A running simulator for each test, back to back instead of paced."""

from collections.abc import AsyncIterator

import pytest

from gateway.simulator import Simulator, running_simulator


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    async with running_simulator(pace_s=0) as running:
        yield running
