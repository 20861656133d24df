"""What tests of repeated `Idempotency-Key`s share."""

from gateway import wiring
from tests.flows.leftovers import eventually

KEY = ("Idempotency-Key", "order-7")
SLOW = "slow-headers-0.5"


def is_replay_of(heard, first) -> bool:
    """The same answer, under its own id."""
    assert heard.request_id != first.request_id
    assert heard.header("x-relay-original-request-id") == first.request_id
    assert (heard.status, heard.body) == (first.status, first.body)
    assert heard.header("content-type") == first.header("content-type")
    return heard.header("idempotent-replayed") == "true"


async def waiting(gateway, count: int = 1) -> None:
    await eventually(lambda: wiring.current().idempotency.waiting != count, f"not {count} waiting")


async def kept(gateway) -> None:
    """Nothing runs, and answers that can be kept are."""
    await gateway.idle()
    await eventually(lambda: wiring.current().idempotency._keeping, "answers are on their way")
