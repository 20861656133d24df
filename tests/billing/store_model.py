"""An admission store as naive as can be: no queue, no sum, no index; everything is looked up in a list."""

from dataclasses import dataclass, field

from billing.admission.open_record import AccountUnknown, Admitted, RefusedBalance, RefusedLimit
from billing.admission.store import CLAIM_SECONDS, EPOCH_EXPIRES_S, GRACE_S, SILENCE_S

NO_CANDIDATE = RefusedLimit("", 0, 1)


@dataclass
class Entry:
    name: str
    account: int
    nano: int
    payload: bytes
    state: str = "running"
    epoch: str = ""
    candidate: int = -1
    leases: set = field(default_factory=set)
    due: float = 0.0


class Model:
    def __init__(self):
        self.now = 1000.0
        self.entries: list[Entry] = []
        self.accounts: dict[int, tuple[int, int]] = {}
        self.beats: dict[str, float] = {}
        self.buried: set[str] = set()
        self.last_beat = None
        self.grace_until = 0.0

    def find(self, name, *states) -> Entry | None:
        found = [one for one in self.entries if one.name == name and one.state in (states or (one.state,))]
        return found[0] if found else None

    def open(self) -> dict[int, int]:
        sums: dict[int, int] = {}
        for one in self.entries:
            sums[one.account] = sums.get(one.account, 0) + one.nano
        return {account: nano for account, nano in sums.items() if nano and account}

    def available(self, account) -> int:
        return self.accounts[account][0] - self.open().get(account, 0) if account else 0

    def members(self, lease) -> list[tuple[str, str]]:
        return [(one.name, holder) for one in self.entries for holder, name in one.leases if name == lease]

    def is_full(self, lease, own=None) -> bool:
        return len([one for one in self.members(lease.name) if one != own]) >= lease.limit

    def bury(self) -> None:
        for epoch, beaten in list(self.beats.items()):
            if beaten + EPOCH_EXPIRES_S <= self.now:
                del self.beats[epoch]
                self.buried.add(epoch)
                for one in self.entries:
                    if one.epoch == epoch and one.state == "running":
                        one.state, one.due = "lost", self.now
                        one.leases.clear()

    def choose(self, candidates, own) -> int:
        for _ in range(2):
            for index, leases in enumerate(candidates):
                if not any(self.is_full(lease, own) for lease in leases):
                    return index
            self.bury()
        return -1

    def admit(self, epoch, ask):
        if one := self.find(ask.request_id):
            known = one.account in self.accounts
            return Admitted(one.candidate, self.available(one.account) if known else 0)
        if ask.account_id and ask.account_id not in self.accounts:
            return AccountUnknown()
        if any(self.is_full(lease) for lease in ask.leases):
            self.bury()
        for lease in ask.leases:
            if self.is_full(lease):
                return RefusedLimit(lease.name, lease.limit, 1)
        available = self.available(ask.account_id)
        if ask.account_id and ask.hold_nano > max(available, 0):
            return RefusedBalance(ask.hold_nano, available)
        candidate = self.choose(ask.candidates, None) if ask.candidates else -1
        if ask.candidates and candidate < 0:
            return NO_CANDIDATE
        one = Entry(
            ask.request_id, ask.account_id, ask.hold_nano, ask.record, epoch=epoch, candidate=candidate
        )
        one.leases = {("*", lease.name) for lease in ask.leases}
        if candidate >= 0:
            one.leases |= {("", lease.name) for lease in ask.candidates[candidate]}
        self.entries.append(one)
        self.begin(epoch)
        return Admitted(candidate, self.available(ask.account_id))

    def begin(self, epoch) -> None:
        self.beats.setdefault(epoch, self.now)

    def lease(self, name, holder, candidates):
        one = self.find(name, "running", "lost")
        if one is None or not candidates:
            return 0
        candidate = self.choose(candidates, (name, holder))
        if candidate < 0:
            return NO_CANDIDATE
        self.release_leases(name, holder)
        one.leases |= {(holder, lease.name) for lease in candidates[candidate]}
        return candidate

    def release_leases(self, name, holder) -> None:
        if one := self.find(name, "running", "lost"):
            one.leases = {pair for pair in one.leases if pair[0] != holder}

    def withdraw(self, name) -> None:
        if one := self.find(name, "running", "lost"):
            self.entries.remove(one)

    def run_in(self, one, epoch) -> None:
        one.state, one.epoch = "running", epoch
        self.begin(epoch)

    def checkpoint(self, epoch, checkpoints):
        refused = set()
        for new in checkpoints:
            one = self.find(new.request_id, "running", "lost")
            if one is None:
                continue
            raised = new.hold_nano - one.nano
            if one.account in self.accounts and raised > 0 and raised > self.available(one.account):
                refused.add(one.name)
            else:
                one.nano = new.hold_nano
            one.payload = new.record
            if one.epoch != epoch or one.state == "lost":
                self.run_in(one, epoch)
        return refused

    def settle(self, records) -> None:
        for new in records:
            one = self.find(new.request_id)
            if one is None:
                one = Entry(new.request_id, 0, 0, b"")
                self.entries.append(one)
            if one.state != "settled":
                one.state, one.epoch, one.due = "settled", "", self.now
                one.leases.clear()
            one.account, one.nano, one.payload = new.account_id, new.amount_nano, new.payload

    def restore(self, epoch, records) -> None:
        for new in records:
            one = self.find(new.checkpoint.request_id)
            if one is not None and one.state == "settled":
                continue
            if one is None:
                one = Entry(new.checkpoint.request_id, 0, 0, b"")
                self.entries.append(one)
            if one.epoch != epoch or one.state == "lost":
                self.run_in(one, epoch)
            one.account, one.nano = new.checkpoint.account_id, new.checkpoint.hold_nano
            one.payload = new.checkpoint.record
            one.leases |= {("*", name) for name in new.leases} | set(new.attempt_leases)

    def put(self, accounts) -> None:
        for one in accounts:
            if one.account_id not in self.accounts or self.accounts[one.account_id][1] < one.seq:
                self.accounts[one.account_id] = (one.balance_nano, one.seq)

    def note_beat(self) -> None:
        if self.last_beat is None or self.now - self.last_beat > SILENCE_S:
            self.grace_until = self.now + GRACE_S
        self.last_beat = self.now

    def beat(self, epoch) -> bool:
        self.note_beat()
        alive = epoch in self.beats and self.beats[epoch] + EPOCH_EXPIRES_S > self.now
        lost = not alive or epoch in self.buried
        self.buried.discard(epoch)
        self.beats[epoch] = self.now
        return lost

    def claimable(self, state, limit) -> list[Entry]:
        due = [one for one in self.entries if one.state == state and one.due <= self.now]
        for one in due[:limit]:
            one.due = self.now + CLAIM_SECONDS
        return due[:limit]

    def release(self, names) -> None:
        for one in self.entries:
            if one.name in names and one.state == "settled":
                one.due = self.now

    def claim_abandoned(self, limit):
        if self.last_beat is None or self.now - self.last_beat > SILENCE_S or self.now < self.grace_until:
            return []
        self.bury()
        return self.claimable("lost", limit)

    def acknowledge(self, names, accounts, state="settled") -> None:
        self.entries = [one for one in self.entries if not (one.name in names and one.state == state)]
        self.put(accounts)
