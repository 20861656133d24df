"""What running requests have used so far, for the store: should this process die, it is booked from that.

Amounts here are quick ones, by the size of what arrived: nothing is tokenized while a request runs.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping

import msgspec

from billing.admission.open_record import OpenRecord
from billing.admission.store import Checkpoint
from billing.core.charging import QUICK_METHOD
from billing.outcome_codec import open_record_encode
from billing.terms import Terms
from gateway.admission.open_requests import OpenRequest
from relay.core.estimate import BYTES_PER_TOKEN, input_bound
from relay.core.outcomes import RequestOutcome
from relay.core.usage import TokenUsage
from relay.upstream.running import RunningRequest

AHEAD_S = 10.0
"""A stream holds what it has cost so far, and what it will cost in this time at its present rate."""

_AT_ONCE = 50
"""Checkpoints made in one step of the loop: about a millisecond."""


class StreamProgress:
    """`Progress` of `gateway.admission.open_requests`. running: request id → running request."""

    def __init__(self, running: Mapping[str, RunningRequest]) -> None:
        self._running = running
        self._seen: dict[str, tuple[int, int, int]] = {}

    async def __call__(self, requests: Iterable[OpenRequest]) -> list[Checkpoint]:
        """Only of those in which something happened since the last call."""
        checkpoints: list[Checkpoint] = []
        seen: dict[str, tuple[int, int, int]] = {}
        for request in requests:
            running = self._running.get(request.request_id)
            if running is None:
                continue
            progress = seen[request.request_id] = running.progress
            if progress != self._seen.get(request.request_id):
                checkpoints.append(checkpoint_of(request, running))
                if len(checkpoints) % _AT_ONCE == 0:
                    await asyncio.sleep(0)
        self._seen = seen
        return checkpoints


def checkpoint_of(request: OpenRequest, running: RunningRequest) -> Checkpoint:
    draft = running.draft()
    usage = _usage_so_far(draft, running.request.prompt_bytes, running.received_size)
    terms = request.terms
    amount_nano = terms.amount_nano(usage) if usage is not None else 0
    record = OpenRecord(
        draft=msgspec.structs.replace(draft, usage=usage),
        price_id=terms.price.id if terms.price else None,
        multiplier_id=terms.multiplier.id if terms.multiplier else None,
        amount_nano=amount_nano,
        is_estimated=usage is not None,
        usage_method=QUICK_METHOD if usage is not None else "",
    )
    request.record = open_record_encode(record)
    held_nano = max(request.first_hold_nano, amount_nano + _ahead_nano(terms, usage, draft))
    return Checkpoint(request.request_id, request.account_id, held_nano, request.record)


def _ahead_nano(terms: Terms, usage: TokenUsage | None, draft: RequestOutcome) -> int:
    """What the answer alone costs in `AHEAD_S` at the rate since it began: the prompt is paid only once."""
    if usage is None:
        return 0
    answer_nano = terms.amount_nano(usage) - terms.amount_nano(_without_answer(usage))
    age_s = time.time() - draft.started_at - (draft.first_event_ms or 0.0) / 1000
    return int(answer_nano * AHEAD_S / max(age_s, 1.0))


def _without_answer(usage: TokenUsage) -> TokenUsage:
    return msgspec.structs.replace(
        usage, output=0, reasoning=None, audio_output=None, image_output=None, images=None
    )


def _usage_so_far(draft: RequestOutcome, prompt_bytes: int, received_size: int) -> TokenUsage | None:
    """None: nothing has arrived, so nothing is charged. prompt_bytes: as of `RelayRequest`."""
    reported = draft.usage or TokenUsage()
    if not received_size and not reported.images and not reported.output:
        return None
    return msgspec.structs.replace(
        reported,
        input=reported.input if reported.input is not None else input_bound(prompt_bytes),
        output=max(reported.output or 0, received_size // BYTES_PER_TOKEN),
    )
