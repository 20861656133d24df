"""An open record as the in-process store keeps it."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Record:
    """epoch: of its process while it runs, "" once settled. leases: (holder, lease name) pairs."""

    request_id: str
    account_id: int
    payload: bytes = field(repr=False)
    open_nano: int = 0
    epoch: str = ""
    is_settled: bool = False
    candidate: int = -1
    leases: list[tuple[str, str]] = field(default_factory=list)
