"""What the client asked, parsed once, as the engine and the recorder read it."""

import msgspec

from relay.core.dialects.base import Ask, Dialect
from relay.core.estimate import prompt_size
from relay.core.path_families import PathFamily
from relay.core.types import Caller, ModelRoute


class RelayRequest(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One relay request. path: as the client sent it, percent-encoding kept, without query.

    query: credential parameters removed. headers: those that may pass upstream. received_at: seconds
    of the monotonic clock. upstream_idempotency_key: never the client's own value, see
    `gateway.relay_flow`.
    """

    id: str
    caller: Caller
    method: str
    path: str
    query: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    family: PathFamily
    dialect: Dialect
    ask: Ask
    is_replayable: bool
    is_image: bool
    received_at: float
    upstream_idempotency_key: str | None = None
    client_request_id: str = ""
    route: ModelRoute | None = None
    """What is configured for the model that was asked for."""

    @property
    def prompt_bytes(self) -> int:
        """How much of the body may become tokens: its texts, and each file, picture or sound flat."""
        found: int | None = self.__dict__.get("prompt_bytes")  # no cached_property: it would take a lock
        if found is None:
            known = self.ask.prompt_bytes
            found = self.__dict__["prompt_bytes"] = prompt_size(self.body) if known is None else known
        return found
