"""Who calls: API keys looked up by digest, from memory in the steady state.

A miss asks the database in a thread. An entry is kept only if no configuration change came while it was
looked up; a change drops exactly the keys and tenants it touched.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from django.db import Error as AnyDatabaseError

from channels_admin.crypto import api_key_digest
from channels_admin.selectors.api_keys import AccessChanges, ApiKeyLookup, ApiKeyRefusal, caller_by_digest
from gateway.threads import DatabaseThreads
from relay.core.errors import Refusal
from relay.upstream.aio_tasks import spawn

KNOWN_KEYS = 50_000
UNKNOWN_KEYS = 10_000
LOOKUPS_AT_ONCE = 8
PATIENCE_S = 5.0
"""For one look-up: a database that hangs is away."""


class ApiKeyDirectory:
    """`find` answers from the cache or the database. version: the configuration version now in force."""

    def __init__(self, version: Callable[[], int]) -> None:
        self._version = version
        self._threads = DatabaseThreads(name="api-keys", size=LOOKUPS_AT_ONCE)
        self._known: OrderedDict[str, ApiKeyLookup] = OrderedDict()
        self._refused: OrderedDict[str, ApiKeyLookup] = OrderedDict()
        self._looking: dict[str, asyncio.Task[ApiKeyLookup | None]] = {}

    async def find(self, api_key: str) -> ApiKeyLookup:
        """Raises Refusal 503 when the database is away or hangs, or too many keys are looked up already."""
        digest = api_key_digest(api_key)
        found = self._known.get(digest) or self._refused.get(digest)
        if found is not None:
            return found
        task = self._looking.get(digest)
        if task is None:
            if len(self._looking) >= LOOKUPS_AT_ONCE:
                raise _busy()
            task = self._looking[digest] = spawn(self._look_up(digest), name="api-key-look-up")
        try:
            async with asyncio.timeout(PATIENCE_S):
                looked_up = await asyncio.shield(task)
        except TimeoutError:
            looked_up = None
        if looked_up is None:
            raise _busy()
        return looked_up

    def drop(self, changes: AccessChanges, _version: int) -> None:
        """A configuration change: forgets what it touched, and every key that was refused before it."""
        for digest in changes.api_key_digests:
            self._known.pop(digest, None)
        if changes.tenant_ids:
            touched = [
                digest
                for digest, found in self._known.items()
                if found.caller is not None and found.caller.tenant_id in changes.tenant_ids
            ]
            for digest in touched:
                del self._known[digest]
        self._refused.clear()

    async def aclose(self) -> None:
        if self._looking:
            await asyncio.wait(set(self._looking.values()))
        await self._threads.aclose()

    async def _look_up(self, digest: str) -> ApiKeyLookup | None:
        """None: the database is away, which is no failure of this task and told by the configuration poll."""
        version = self._version()
        try:
            found = await self._threads.read(caller_by_digest, digest)
        except AnyDatabaseError:
            return None
        finally:
            del self._looking[digest]
        if version == self._version():
            self._keep(digest, found)
        return found

    def _keep(self, digest: str, found: ApiKeyLookup) -> None:
        cache, bound = (self._known, KNOWN_KEYS) if found.caller else (self._refused, UNKNOWN_KEYS)
        cache[digest] = found
        if len(cache) > bound:
            cache.popitem(last=False)


def refusal_message(refusal: ApiKeyRefusal) -> Refusal:
    """What the caller is told: which of its keys is bad, never the key."""
    texts = {
        ApiKeyRefusal.UNKNOWN: "The API key is not valid.",
        ApiKeyRefusal.CLOSED: "The API key was revoked.",
        ApiKeyRefusal.EXPIRED: "The API key has expired.",
        ApiKeyRefusal.TENANT_CLOSED: "The account of this API key is closed.",
    }
    return Refusal(401, texts[refusal], kind="authentication_error", code="invalid_api_key")


def _busy() -> Refusal:
    message = "API keys cannot be checked right now. Try again."
    return Refusal(503, message, kind="api_error", code="authentication_unavailable", retry_after_s=1)
