"""The behaviours, one subject a file. Importing this package fills the registry's table.

To add one: a coroutine function in the file of its subject, with `@behaviour(pattern, meaning)`, and a test.
"""

from gateway.simulator.behaviours import (
    anthropic,
    content,
    endings,
    errors,
    framing,
    gemini,
    plain,
    statuses,
    timing,
    tools,
    usage,
    wire,
)

__all__ = [
    "anthropic", "content", "endings", "errors", "framing", "gemini", "plain", "statuses", "timing", "tools",
    "usage", "wire",
]  # fmt: skip
