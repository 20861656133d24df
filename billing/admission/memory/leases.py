"""Who holds a place under which ceiling. Not thread-safe: the store holds its lock."""

from collections.abc import Iterable, Sequence

from billing.admission.open_record import LeaseAsk

Member = tuple[str, str]
"""(request id, holder): what a place is held by."""

_NOBODY: Member = ("", "")


class Leases:
    """Sets, never counters: taking twice is taking once, giving back what is missing is nothing."""

    def __init__(self) -> None:
        self._members: dict[str, set[Member]] = {}

    def is_full(self, ask: LeaseAsk, own: Member = _NOBODY) -> bool:
        """Whether there is no place for one more. own: a member who is not counted."""
        members = self._members.get(ask.name)
        if members is None:
            return ask.limit < 1
        return len(members) - (own in members) >= ask.limit

    def first_full(self, asks: Iterable[LeaseAsk], own: Member = _NOBODY) -> LeaseAsk | None:
        """The first without room; None = all have some."""
        for ask in asks:
            if self.is_full(ask, own):
                return ask
        return None

    def choose(self, candidates: Sequence[Iterable[LeaseAsk]], own: Member = _NOBODY) -> int:
        """Index of the first candidate whose leases all have room; -1 = none has."""
        for index, asks in enumerate(candidates):
            if self.first_full(asks, own) is None:
                return index
        return -1

    def take(self, name: str, member: Member) -> None:
        members = self._members.get(name)
        if members is None:
            self._members[name] = {member}
        else:
            members.add(member)

    def give_back(self, name: str, member: Member) -> None:
        members = self._members.get(name)
        if members is not None:
            members.discard(member)
            if not members:
                del self._members[name]

    def holders(self, name: str) -> list[str]:
        """Request ids, each once, sorted."""
        return sorted({request_id for request_id, _ in self._members.get(name, ())})
