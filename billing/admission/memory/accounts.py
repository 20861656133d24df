"""Balances and the cached sums of open amounts, by account. Amounts are integer nano-dollars.

Not thread-safe: the store holds its lock.
"""

from collections.abc import Iterable

from billing.admission.open_record import AccountState


class Accounts:
    """Account 0 is nobody: it has no balance, and what is open for it is not summed."""

    def __init__(self) -> None:
        self._states: dict[int, AccountState] = {}
        self._open: dict[int, int] = {}

    def put(self, states: Iterable[AccountState]) -> None:
        """Newer states win; older ones are ignored."""
        for state in states:
            known = self._states.get(state.account_id)
            if known is None or known.seq < state.seq:
                self._states[state.account_id] = state

    def available(self, account_id: int) -> int | None:
        """Balance less what is open; None when the account is not known here."""
        state = self._states.get(account_id)
        return None if state is None else state.balance_nano - self._open.get(account_id, 0)

    def add(self, account_id: int, nano: int) -> None:
        """Change the sum of what is open for an account."""
        if account_id and nano:
            self._open[account_id] = self._open.get(account_id, 0) + nano

    def open_amounts(self) -> dict[int, int]:
        return {account_id: nano for account_id, nano in self._open.items() if nano}

    def replace(self, amounts: dict[int, int]) -> dict[int, int]:
        """Take sums that were computed anew; by how much they change, unchanged ones left out."""
        cached, self._open = self._open, amounts
        changes = {one: amounts.get(one, 0) - cached.get(one, 0) for one in (*cached, *amounts)}
        return {account_id: nano for account_id, nano in changes.items() if nano}
