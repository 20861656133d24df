"""Values between the in-process store and its mirror in the database."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MirroredRecord:
    """An open record without its leases, which end with the process anyway.

    open_nano: hold or amount, nano-dollars. epoch: "" once settled.
    """

    request_id: str
    is_settled: bool
    epoch: str
    account_id: int
    open_nano: int
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class MirrorBatch:
    """What the mirror must do next. An id is in one of the two at most."""

    upserts: tuple[MirroredRecord, ...] = ()
    deletes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.upserts or self.deletes)
