"""Reads a whole (not streamed) response: usage, how it ended, model, pictures, a failure inside a 200.

Must not build Python objects of the answer's text.
"""

import msgspec

from relay.core.dialects.base import TOOL_CALL_INVALID, UpstreamError, WholeAnswer
from relay.core.dialects.members import value
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.dialects.openai_responses.event import Item, Response, read_response
from relay.core.dialects.openai_responses.items import CLIENT_TOOL_CALLS, has_picture, is_whole_call
from relay.core.dialects.upstream_errors import find_error
from relay.core.usage import TokenUsage

_FAILED = frozenset({"failed", "cancelled"})
_UNFINISHED = frozenset({"queued", "in_progress"})


def inspect_whole(body: bytes) -> WholeAnswer:
    """Raises ValueError when the body is no JSON object, neither a response nor an error, or unfinished."""
    response = read_response(body)
    if response.status in _FAILED:
        return WholeAnswer(error=failure_of(response), model=response.model or "")
    if response.output is None or bytes(response.error) != b"null":
        found = find_error(value(body))
        if found is not None:
            return WholeAnswer(error=found)
    if response.output is None:
        raise ValueError("no output")
    if response.status in _UNFINISHED:
        raise ValueError("not finished")
    return _answer(response, response.output)


def _answer(response: Response, output: list[Item]) -> WholeAnswer:
    reported = usage_from_raw(response.usage)
    pictures = sum(map(has_picture, output))
    usage = reported.tokens
    if pictures:
        usage = msgspec.structs.replace(usage or TokenUsage(), images=pictures)
    calls = [item for item in output if item.type in CLIENT_TOOL_CALLS]
    broken = () if all(map(is_whole_call, calls)) else (TOOL_CALL_INVALID,)
    return WholeAnswer(
        usage=usage,
        finish_reasons=(finish_reason(response, response.status or "completed"),),
        model=response.model or "",
        answer_id=response.id or "",
        soft_errors=reported.soft_errors + broken,
    )


def finish_reason(response: Response, status: str) -> str:
    """`completed`, or why not: `max_output_tokens`, `content_filter`, else `incomplete`."""
    details = response.incomplete_details
    return (details.reason if details is not None and status == "incomplete" else None) or status


def failure_of(response: Response) -> UpstreamError:
    """What a failed response says of its failure."""
    found = find_error({"error": value(response.error)})
    if found is not None:
        return found
    status = response.status or "failed"
    return UpstreamError(f"The upstream's response ended as '{status[:20]}'.", kind=f"response_{status}"[:40])
