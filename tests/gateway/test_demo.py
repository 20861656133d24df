"""What `make run` puts into an empty database."""

from gateway.demo import simulator_models
from relay.core.selection import matches


def test_the_simulator_serves_its_own_models_and_never_a_real_one():
    models = simulator_models()
    assert all(
        any(matches(pattern, name) for pattern in models) for name in ("echo", "echo-0", "stall-after-3")
    )
    for real in ("gpt-4o-mini", "o3", "claude-sonnet-4", "gemini-2.5-pro", "deepseek-chat", "*"):
        assert not any(matches(pattern, real) for pattern in models)
