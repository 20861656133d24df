"""The registry of upstream kinds: a channel's `kind` names one of them.

Adding one: a module here shaped like `openai.py`, a row in `UPSTREAM_KINDS`, a fixture test. Its wire
protocol is a dialect and lives in `relay.core.dialects`.
"""

from collections.abc import Mapping

from relay.core.upstream_kinds.anthropic import ANTHROPIC
from relay.core.upstream_kinds.base import TellsUsageLater, UpstreamKind
from relay.core.upstream_kinds.gemini import GEMINI
from relay.core.upstream_kinds.openai import OPENAI
from relay.core.upstream_kinds.openrouter import OPENROUTER

UPSTREAM_KINDS: Mapping[str, UpstreamKind] = {
    kind.name: kind for kind in (OPENAI, ANTHROPIC, GEMINI, OPENROUTER)
}
KINDS_THAT_TELL_USAGE_LATER: Mapping[str, TellsUsageLater] = {
    name: kind for name, kind in UPSTREAM_KINDS.items() if isinstance(kind, TellsUsageLater)
}


def speaks(kind: str, dialect: str) -> bool:
    """Whether upstreams of a kind are asked in a dialect. An unknown kind speaks none."""
    known = UPSTREAM_KINDS.get(kind)
    return known is not None and dialect in known.dialects
