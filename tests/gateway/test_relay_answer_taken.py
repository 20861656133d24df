"""Whether an answer counts as taken by its client, from what is known of the connection."""

import pytest

from gateway.front.connection import ClientConnection
from gateway.responses import IN_FLIGHT_BYTES, _is_taken


class Known(ClientConnection):
    """A connection with a hold, in the given state."""

    def __init__(self, unsent: int, unacknowledged: int | None) -> None:
        super().__init__(None)
        self._state = (unsent, unacknowledged)

    can_abort = True

    def unsent(self) -> int:
        return self._state[0]

    def unacknowledged(self) -> int | None:
        return self._state[1]


@pytest.mark.parametrize(
    ("unsent", "unacknowledged", "is_taken"),
    [
        (0, 0, True),
        (0, IN_FLIGHT_BYTES, True),
        (0, IN_FLIGHT_BYTES + 1, False),
        (1, 0, False),
        (0, None, False),  # the socket is closed: what it held has gone with it
    ],
)
def test_taken_is_what_neither_we_nor_the_kernel_hold(
    unsent: int, unacknowledged: int | None, is_taken: bool
) -> None:
    assert _is_taken(Known(unsent, unacknowledged), IN_FLIGHT_BYTES + 1) is is_taken


@pytest.mark.parametrize(("unsent", "is_taken"), [(0, True), (1, False)])
def test_an_answer_that_may_be_under_way_whole_is_taken_once_the_kernel_has_it(
    unsent: int, is_taken: bool
) -> None:
    assert _is_taken(Known(unsent, None), IN_FLIGHT_BYTES) is is_taken


def test_server_that_tells_nothing_is_believed() -> None:
    assert _is_taken(ClientConnection(None), IN_FLIGHT_BYTES + 1)
