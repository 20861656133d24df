"""The database is away while the gateway serves: what needs it says so, politely, and the log stays short."""

import logging
import threading

import pytest
from django.db import DataError, InterfaceError, OperationalError

from billing.tasks import record_settled
from channels_admin.selectors.api_keys import caller_by_digest
from channels_admin.services import channel_update
from gateway import wiring
from gateway.api import errors
from tests.factories.channels import an_api_key
from tests.flows.leftovers import eventually

SECRET = "password=hunter2"


def away(*_args):
    raise OperationalError(SECRET)


@pytest.fixture(autouse=True)
def nothing_logged_yet(monkeypatch):
    monkeypatch.setattr(errors, "_database_errors_logged", {})


def error_lines(caplog):
    return [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.ERROR]


@pytest.mark.parametrize("error", [OperationalError, InterfaceError, DataError])
async def test_ones_own_request_cannot_be_looked_up(gateway, monkeypatch, caplog, error):
    def fail(*_args):
        raise error(SECRET)

    heard = await gateway.chat("echo-0")
    await gateway.recorded()
    monkeypatch.setattr("gateway.api.requests.request_view", fail)
    for _ in range(3):
        asked = await gateway.ask("GET", f"/v1/requests/{heard.request_id}")
        assert (asked.status, asked.json()["error"]["code"]) == (503, "database_unavailable")
        assert asked.header("retry-after") == "1"
        assert "hunter2" not in asked.body.decode()
    (line,) = error_lines(caplog)
    assert error.__name__ in line
    assert "hunter2" not in caplog.text


async def test_what_is_not_recorded_yet_is_still_told(gateway, monkeypatch):
    monkeypatch.setattr("billing.tasks.settled_records_write", away)
    monkeypatch.setattr("gateway.api.requests.request_view", away)
    heard = await gateway.chat("echo-0")
    await gateway.idle()
    asked = await gateway.ask("GET", f"/v1/requests/{heard.request_id}")
    assert (asked.status, asked.json()["state"]) == (200, "settled")
    monkeypatch.undo()
    await gateway.run(record_settled)


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
async def test_the_configuration_poll_survives(gateway, monkeypatch, caplog, error):
    def fail(*_args):
        asked.append(error)
        raise error(SECRET)

    asked = []
    with monkeypatch.context() as patch:
        patch.setattr("gateway.config._load", fail)
        await eventually(lambda: len(asked) < 2, "no second poll", 5)
    await gateway.run(channel_update, channel_id=gateway.channel.pk, models=["renamed"])
    poll = wiring.current().configuration
    await eventually(lambda: gateway.channel.pk not in renamed(poll), "no poll after the outage", 5)
    assert len([line for line in caplog.messages if "poll fails" in line]) == 1
    assert error_lines(caplog) == []


def renamed(poll):
    return {pk for pk, row in poll.current.channels.channels.items() if "renamed" in row.models}


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
async def test_an_api_key_not_seen_yet_cannot_be_checked_and_known_ones_go_on(
    gateway, monkeypatch, caplog, error
):
    def away(*_args):
        raise error(SECRET)

    _, unseen = await gateway.run(an_api_key, gateway.tenant, name="unseen")
    assert (await gateway.chat("echo-0")).status == 200
    monkeypatch.setattr("gateway.api_keys.caller_by_digest", away)
    for _ in range(3):
        refused = await gateway.chat("echo-0", key=unseen)
        assert (refused.status, refused.json()["error"]["code"]) == (503, "authentication_unavailable")
        assert refused.header("retry-after") == "1"
    assert (await gateway.chat("echo-0")).status == 200
    assert error_lines(caplog) == []
    monkeypatch.undo()
    assert (await gateway.chat("echo-0", key=unseen)).status == 200


async def test_a_database_that_hangs_is_away(gateway, monkeypatch):
    """A look-up that nobody answers is given up; known keys go on."""
    is_back = threading.Event()

    def hang(digest):
        assert is_back.wait(30)
        return caller_by_digest(digest)

    _, unseen = await gateway.run(an_api_key, gateway.tenant, name="unseen")
    assert (await gateway.chat("echo-0")).status == 200
    monkeypatch.setattr("gateway.api_keys.PATIENCE_S", 0.2)
    monkeypatch.setattr("gateway.api_keys.caller_by_digest", hang)
    try:
        refused = await gateway.chat("echo-0", key=unseen)
        assert (refused.status, refused.json()["error"]["code"]) == (503, "authentication_unavailable")
        assert (await gateway.chat("echo-0")).status == 200
    finally:
        is_back.set()
    monkeypatch.undo()
    assert (await gateway.chat("echo-0", key=unseen)).status == 200
