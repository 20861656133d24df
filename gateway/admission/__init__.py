"""Whether a request may run now, and what it holds meanwhile.

`asks` says what is needed (hold, places, rates), `admissions` takes it from the store and tells the client
when it cannot be had, `leases` takes places for further attempts, `checkpoints` reports what running streams
have used, `open_requests` keeps what this process holds and its heartbeat.
"""

from gateway.admission.admissions import Admissions
from gateway.admission.open_requests import OpenRequest, OpenRequests

__all__ = ["Admissions", "OpenRequest", "OpenRequests"]
