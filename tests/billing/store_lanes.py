"""Both admission stores with a clock that a test can move."""

import secrets

import msgspec
import redis

from billing.admission.memory import MemoryStore
from billing.admission.redis import RedisAdmissionPort, RedisOpenRecords


class MemoryLane:
    def __init__(self):
        self.moment = 1000.0
        self.port = MemoryStore(now=lambda: self.moment)
        self.records = self.port.workers

    def later(self, seconds: float) -> None:
        self.moment += seconds


class RedisLane:
    """The server's clock cannot be moved: moving every moment it keeps back is the same as time going on.

    Rates go on by whole slots of five seconds only.
    """

    def __init__(self, url, prefix):
        self.port = RedisAdmissionPort(url, prefix)
        self.records = RedisOpenRecords(url, prefix)
        self.client = redis.Redis.from_url(url)
        self.url, self.prefix = url, prefix

    def later(self, seconds: float) -> None:
        for queue in ("due", "lost", "answers"):
            for request_id in self.client.zrange(f"{self.prefix}{queue}", 0, -1):
                self.client.zincrby(f"{self.prefix}{queue}", -seconds * 1000, request_id)
        for name in ("last_beat", "grace_until"):
            if self.client.exists(f"{self.prefix}{name}"):
                self.client.decrby(f"{self.prefix}{name}", int(seconds * 1000))
        for kind in ("alive", "idem", "answer"):
            for key in self.client.scan_iter(f"{self.prefix}{kind}:*"):
                left = self.client.pttl(key) - int(seconds * 1000)
                self.client.pexpire(key, left) if left > 0 else self.client.delete(key)
        for key in self.client.scan_iter(f"{self.prefix}rate:*"):
            parts = msgspec.msgpack.decode(self.client.get(key))
            parts[::2] = [slot - int(seconds // 5) for slot in parts[::2]]
            self.client.set(key, msgspec.msgpack.encode(parts), keepttl=True)

    def forget_everything(self) -> None:
        for key in self.client.scan_iter(f"{self.prefix}*"):
            self.client.delete(key)

    def left(self) -> set[str]:
        """What is left in the store, but for what it keeps for good."""
        lasting = {"boot", "last_beat", "grace_until", "balance", "seq"}
        names = {key.decode()[len(self.prefix) :] for key in self.client.scan_iter(f"{self.prefix}*")}
        return {
            name for name in names - lasting if not name.startswith(("alive:", "rate:", "dead:", "gone:"))
        }

    async def aclose(self) -> None:
        await self.port.aclose()
        self.records.close()
        self.client.close()


def prefix_make() -> str:
    return f"test:{secrets.token_hex(8)}:"
