"""Keeps a worker going whose broker did not take an acknowledgement or a rejection.

Kombu logs that failure and forgets it, while the message still counts as being worked on: a worker that takes
one message at a time (a pool of one, prefetch 1) would never take another. The broker's copy comes back by
itself when the visibility timeout is over; tasks carry nothing and may run again. Must not import Django.
"""

from typing import Any

from celery import Task
from celery.worker.request import Request
from kombu.transport.virtual import QoS


class SteadyRequest(Request):
    """One message in a worker."""

    def acknowledge(self) -> None:
        super().acknowledge()
        self._put_down()

    def reject(self, requeue: bool = False) -> None:
        super().reject(requeue=requeue)
        self._put_down()

    def _put_down(self) -> None:
        """The worker has room for the next message, whatever the broker knows."""
        message: Any = self.message
        # Transports that count for themselves (Redis's does) have this class; AMQP's broker counts.
        if not message.acknowledged and isinstance(qos := getattr(message.channel, "qos", None), QoS):
            QoS.ack(qos, message.delivery_tag)  # here only: the transport's own would ask the broker again


class SteadyTask(Task):  # type: ignore[type-arg]  # at run time it takes none
    """The base of all tasks."""

    abstract = True
    Request = "gateway.celery_requests:SteadyRequest"
