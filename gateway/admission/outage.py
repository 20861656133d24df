"""How much a tenant may spend in this process while the admission store is away.

Off by default: then new requests get 503. Otherwise each process admits a tenant's requests up to the smaller
of the cap and of what the tenant had when the store was last heard. Requests that need a place or a rate are
refused all the same: nobody can count them.
"""

from collections import OrderedDict

TENANTS_REMEMBERED = 50_000


class OutageAllowance:
    """cap_nano: nano-dollars a tenant and process; 0 = off."""

    def __init__(self, cap_nano: int) -> None:
        self._cap_nano = cap_nano
        self._available: OrderedDict[int, int] = OrderedDict()
        self._taken: dict[int, int] = {}

    def saw(self, account_id: int, available_nano: int) -> None:
        """The store answered: this much was left, and what was taken without it counts no more."""
        if not self._cap_nano:
            return
        self._available[account_id] = available_nano
        self._available.move_to_end(account_id)
        if len(self._available) > TENANTS_REMEMBERED:
            self._available.popitem(last=False)
        self._taken.pop(account_id, None)

    def take(self, account_id: int, hold_nano: int) -> bool:
        """Whether a request with this hold may run without the store's word."""
        if not self._cap_nano:
            return False
        limit = min(self._cap_nano, self._available.get(account_id, 0))
        taken = self._taken.get(account_id, 0) + hold_nano
        if taken > limit:
            return False
        self._taken[account_id] = taken
        return True
