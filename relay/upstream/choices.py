"""Which channel and key is tried next, and when there is no next one."""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from relay.core.request import RelayRequest
from relay.core.selection import pick_key
from relay.core.types import Channel, UpstreamKey
from relay.upstream.ports import Chance, Clock, Control


class Choice(msgspec.Struct, frozen=True):
    """decision: why this one, for the record."""

    channel: Channel
    key: UpstreamKey
    decision: str


def choices(
    request: RelayRequest,
    candidates: Sequence[Channel],
    *,
    control: Control,
    clock: Clock,
    chance: Chance,
    next_key_turn: Callable[[Channel], int],
) -> Iterator[Choice]:
    """The candidates in their order, each once, as long as the flags allow a further one.

    Flags, statuses and the retry budget are looked at anew before each further choice; the budget never
    cuts an attempt that runs, and does not apply to images.
    """
    began = clock.now()
    offered = 0
    for channel in candidates:
        flags = control.flags()
        if offered > 0:
            is_over_budget = clock.now() - began >= flags.retry_budget_s and not request.is_image
            if offered > flags.retry_times or is_over_budget:
                return
        key = pick_key(channel, next_key_turn(channel), chance)
        if not control.is_usable(channel, key):
            continue
        offered += 1
        place = "first choice" if offered == 1 else f"choice {offered}"
        yield Choice(channel, key, f"{place}: priority {channel.priority}, weight {channel.weight}")
