"""The answers of calls that count tokens: one number, which nobody pays for, whatever the dialect calls it.

Free at Anthropic (https://platform.claude.com/docs/en/build-with-claude/token-counting) and at Google
(https://ai.google.dev/api/tokens); OpenAI names no price. Must not import a dialect.
"""

import msgspec

from relay.core.dialects.base import WholeAnswer
from relay.core.dialects.counts import Count
from relay.core.dialects.members import is_set, members, value
from relay.core.dialects.upstream_errors import find_error
from relay.core.usage import TokenUsage

_NOT_BILLED = TokenUsage(input=0, output=0)
_read_count = msgspec.json.Decoder(Count).decode


def inspect_count(body: bytes, name: str) -> WholeAnswer:
    """name: of the member that is the count. Raises ValueError when there is neither that nor an error."""
    answer = members(msgspec.Raw(body))
    raw = answer.get(name)
    if raw is None or is_set(answer.get("error")):
        found = find_error(value(body))
        if found is not None:
            return WholeAnswer(error=found)
    try:
        _read_count(raw or b"null")
    except msgspec.MsgspecError as error:
        raise ValueError("no count of tokens") from error
    return WholeAnswer(usage=_NOT_BILLED)
