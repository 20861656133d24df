"""The Lua scripts, as the server knows them."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

_FOLDER = Path(__file__).parent / "lua"


@dataclass(frozen=True, slots=True)
class Script:
    """sha: the name under which the server keeps the text once it has seen it."""

    text: str = field(repr=False)
    sha: str


def _script(name: str, *libraries: str) -> Script:
    parts = ("common", *libraries, name)
    text = "\n".join((_FOLDER / f"{part}.lua").read_text() for part in parts)
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


ADMIT = _script("admit", "ceilings")
LEASE = _script("lease", "ceilings")
RELEASE_LEASES = _script("release_leases")
WITHDRAW = _script("withdraw")
CHECKPOINT = _script("checkpoint")
SETTLE = _script("settle")
BEAT = _script("beat")
RESTORE = _script("restore")
LEAVE = _script("leave")
ACCOUNTS_PUT = _script("accounts_put")
CORRECT_RATES = _script("correct_rates", "ceilings")
CLAIM = _script("claim")
ACKNOWLEDGE = _script("acknowledge")
RELEASE = _script("release")
CLAIM_ABANDONED = _script("claim_abandoned")
ACKNOWLEDGE_ABANDONED = _script("acknowledge_abandoned")
RECOMPUTE = _script("recompute")
HOLDERS = _script("holders")
COUNTS = _script("counts")
STATE = _script("state")
IDEMPOTENCY_BEGIN = _script("idempotency_begin", "idempotency")
IDEMPOTENCY_WITHDRAW = _script("idempotency_withdraw")
IDEMPOTENCY_RELEASE = _script("idempotency_release", "idempotency")
IDEMPOTENCY_ENDED = _script("idempotency_ended", "idempotency")
IDEMPOTENCY_FINISH = _script("idempotency_finish", "idempotency")
IDEMPOTENCY_KEEP = _script("idempotency_keep", "idempotency")
IDEMPOTENCY_ANSWER = _script("idempotency_answer")
