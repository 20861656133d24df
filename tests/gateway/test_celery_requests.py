"""A worker whose broker went silent in the middle of an acknowledgement or a rejection takes further messages."""

import pytest
from celery.utils.imports import symbol_by_name
from kombu.message import Message
from kombu.transport.virtual import QoS

from billing.tasks import heartbeat
from gateway.celery import app
from gateway.celery_requests import SteadyRequest

TAG = "tag-1"


class Channel:
    """Of a transport that counts what a worker has in hand. fails: its broker does not answer."""

    no_ack_consumers = ()
    do_restore = False  # nothing to give back when the test run ends

    def __init__(self, fails):
        self.fails = fails
        self.told = []
        self.qos = QoS(self, prefetch_count=1)

    def basic_reject(self, tag, requeue=False):
        self.basic_ack(tag)

    def basic_ack(self, tag, multiple=False):
        if self.fails:
            raise TimeoutError
        self.told.append(tag)
        self.qos.ack(tag)


def in_hand(channel):
    """The request that a worker makes of a message."""
    headers = {"id": "one", "task": heartbeat.name, "root_id": "one", "parent_id": None}
    message = Message(
        body="[[], {}, {}]",
        delivery_tag=TAG,
        content_type="application/json",
        content_encoding="utf-8",
        delivery_info={},
        headers=headers,
        channel=channel,
    )
    channel.qos.append(message, TAG)
    kind = symbol_by_name(app.tasks[heartbeat.name].Request)
    return kind(
        message,
        on_ack=message.ack_log_error,
        on_reject=message.reject_log_error,
        app=app,
        task=app.tasks[heartbeat.name],
        connection_errors=(TimeoutError,),
        body=([], {}, {}),
        headers=headers,
        decoded=True,
    )


@pytest.mark.parametrize("end", [SteadyRequest.acknowledge, SteadyRequest.reject])
@pytest.mark.parametrize("fails", [True, False])
def test_there_is_room_for_the_next_message(fails, end):
    channel = Channel(fails)
    request = in_hand(channel)
    assert not channel.qos.can_consume()
    end(request)
    assert channel.qos.can_consume()
    assert channel.told == ([] if fails else [TAG])
    assert request.acknowledged
