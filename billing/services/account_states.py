"""Telling the admission store of balances that changed elsewhere than at an acknowledgement."""

import functools
import logging
from collections.abc import Sequence

from django.db import transaction

from billing.admission import StoreUnavailable, open_records
from billing.admission.open_record import AccountState
from billing.models import Watermark
from billing.selectors.accounts import accounts_newer_than

_WATERMARK = "accounts_published"
_OVERLAP_S = 60.0
"""Longer than any transaction, and than what a store may forget when it crashes."""
_CHUNK = 500
_logger = logging.getLogger(__name__)


def account_states_publish(states: Sequence[AccountState]) -> None:
    """After the commit, best effort: what the store does not take now, `accounts_publish_changed` brings."""
    transaction.on_commit(functools.partial(_try_to_put, states))


def accounts_publish_changed() -> int:
    """Give the store all states that are newer than the last run's; how many.

    Errors: StoreUnavailable; the next run then begins where this one did.
    """
    mark = Watermark.objects.filter(name=_WATERMARK).first()
    newer = accounts_newer_than(mark.moment if mark else None, overlap_s=_OVERLAP_S)
    for start in range(0, len(newer.states), _CHUNK):
        open_records().accounts_put(newer.states[start : start + _CHUNK])
    if newer.until is not None:
        Watermark.objects.update_or_create(name=_WATERMARK, defaults={"moment": newer.until})
    return len(newer.states)


def _try_to_put(states: Sequence[AccountState]) -> None:
    try:
        open_records().accounts_put(states)
    except StoreUnavailable as error:
        _logger.warning("the store did not take a new balance yet: %s", type(error).__name__)
