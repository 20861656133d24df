"""Hedging's own tables: which requests, which failures, and how many backups at once."""

from dataclasses import replace

import pytest

from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.hedging import WINDOW_S, HedgeCeiling, hedge_after_s, is_gateway_error
from relay.core.types import ModelRoute
from tests.fakes.runtime import a_request

ROUTE = ModelRoute(id=1, model="m", hedge_after_s=0.8)


@pytest.mark.parametrize(
    ("path", "dialect", "key", "expected"),
    [
        ("/v1/chat/completions", "openai_chat", None, 0.8),
        ("/v1/chat/completions", "openai_chat", "k", 0.8),
        ("/v1/responses", "openai_responses", None, 0.0),
        ("/v1/responses", "openai_responses", "k", 0.0),
        ("/v1/images/generations", "opaque", None, 0.0),
        ("/v1/images/generations", "opaque", "k", 0.0),
        ("/v1/audio/speech", "opaque", "k", 0.0),
        ("/v1/videos", "opaque", "k", 0.0),
        ("/v1/files", "opaque", "k", 0.0),
    ],
)
def test_only_families_that_may_be_sent_twice_without_a_key(path, dialect, key, expected):
    request = a_request(path=path, dialect=dialect, idempotency_key=key, input="hi", route=ROUTE)
    assert hedge_after_s(request) == expected


def test_never_for_artefacts_and_never_without_a_route():
    assert hedge_after_s(a_request(route=replace(ROUTE, is_artefact=True))) == 0.0
    assert hedge_after_s(a_request(route=replace(ROUTE, hedge_after_s=0.0))) == 0.0
    assert hedge_after_s(a_request()) == 0.0


@pytest.mark.parametrize(
    ("status", "expected"),
    [(s, True) for s in (502, 503, 504, 520, 522, 524, 529, 530)]
    + [(s, False) for s in (400, 401, 404, 408, 429, 500, 501, 519, 531)],
)
def test_statuses_of_gateway_errors(status, expected):
    assert is_gateway_error(AttemptFailed(EndReason.UPSTREAM_REJECTED, status=status)) is expected


@pytest.mark.parametrize("reason", sorted(EndReason))
def test_without_a_status_only_a_failed_connection_is_clear(reason):
    expected = reason is EndReason.CONNECT_FAILED
    assert is_gateway_error(AttemptFailed(reason)) is expected


def _granted(ceiling: HedgeCeiling, now: float, times: int, share: float = 0.1, running: int = 50) -> int:
    return sum(ceiling.take(now, max_share=share, max_running=running) for _ in range(times))


def test_a_tenth_of_the_requests_of_a_minute():
    ceiling = HedgeCeiling()
    for _ in range(100):
        ceiling.note_request(1000.0)
    assert _granted(ceiling, 1000.5, 30) == 10


def test_requests_and_backups_of_more_than_a_minute_ago_do_not_count():
    ceiling = HedgeCeiling()
    for _ in range(100):
        ceiling.note_request(1000.0)
    assert _granted(ceiling, 1001.0, 30) == 10
    for _ in range(40):
        ceiling.note_request(1030.0)
    assert _granted(ceiling, 1059.0, 30) == 4  # of 140
    assert _granted(ceiling, 1000.0 + WINDOW_S + 1, 30) == 0  # of 40, and 4 of them have had theirs
    assert _granted(ceiling, 1030.0 + WINDOW_S, 30) == 0  # those 4 still count
    assert _granted(ceiling, 1059.0 + WINDOW_S, 30) == 1


def test_few_requests_may_have_one_backup_a_minute_unless_the_share_is_nothing():
    ceiling = HedgeCeiling()
    ceiling.note_request(1000.0)
    assert _granted(ceiling, 1000.0, 5, share=0.0) == 0
    assert _granted(ceiling, 1000.0, 5) == 1


def test_so_many_run_at_once():
    ceiling = HedgeCeiling()
    for _ in range(1000):
        ceiling.note_request(1000.0)
    assert _granted(ceiling, 1000.0, 10, share=1.0, running=3) == 3
    ceiling.give_back(1000.0, was_made=True)
    assert _granted(ceiling, 1000.0, 10, share=1.0, running=3) == 1
    assert _granted(ceiling, 1000.0, 1, share=1.0, running=0) == 0


def test_a_backup_that_asked_nobody_does_not_count():
    ceiling = HedgeCeiling()
    ceiling.note_request(1000.0)
    assert _granted(ceiling, 1000.0, 1) == 1
    ceiling.give_back(1010.0, was_made=False)
    assert ceiling.running == 0
    assert _granted(ceiling, 1010.0, 2) == 1
