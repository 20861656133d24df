"""Admission of one request: takes its hold, places and rates in one step of the store, or refuses it."""

import datetime
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from billing.admission import AdmissionPort, StoreUnavailable
from billing.admission.open_record import (
    AccountState,
    AccountUnknown,
    Admission,
    AdmissionAsk,
    Admitted,
    OpenRecord,
    RefusedBalance,
    RefusedLimit,
)
from billing.admission.store import ADMISSION_HOLDER
from billing.outcome_codec import open_record_encode
from billing.terms import Terms, hold_nano, terms_of
from gateway import metrics
from gateway.admission import asks
from gateway.admission.image_gate import NAME as IMAGE_LEASE
from gateway.admission.image_gate import ImageGate, ImageLimit, NoImageSlot
from gateway.admission.open_requests import OpenRequest, OpenRequests
from gateway.admission.outage import OutageAllowance
from gateway.admission.refusals import (
    balance_refusal,
    limit_refusal,
    model_not_priced,
    store_unavailable,
)
from gateway.config import ConfigSnapshot
from relay.core.errors import Refusal
from relay.core.image_intent import is_image_request
from relay.core.request import RelayRequest
from relay.upstream.record import draft_outcome

LoadAccount = Callable[[int], Awaitable[AccountState]]


class Admissions:
    """One per process. load_account: reads a tenant's balance from the database."""

    def __init__(
        self,
        port: AdmissionPort,
        open_requests: OpenRequests,
        image_gate: ImageGate,
        *,
        load_account: LoadAccount,
        outage: OutageAllowance,
    ) -> None:
        self._port = port
        self._open = open_requests
        self._image_gate = image_gate
        self._load_account = load_account
        self._outage = outage

    async def admit(
        self, request: RelayRequest, choices: Sequence[asks.Candidate], config: ConfigSnapshot
    ) -> asks.Candidate:
        """The channel and key to begin with: the first of `choices`, at least one, with room.

        Waits for an image slot where the flags say so. Raises Refusal 402, 429, 503.
        """
        now = datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
        terms = terms_of(request, config.prices.book, now)
        flags = config.channels.flag_values
        needs_price = request.ask.is_charged and request.ask.model and not flags["ALLOW_UNPRICED_MODELS"]
        if terms.price is None and needs_price:
            raise _counted(model_not_priced(request.ask.model))
        ask = _ask(request, terms, now, choices if asks.has_ceilings(choices) else ())
        limit = _image_limit(request, flags)
        if limit is None:
            taken = await self._admit(ask, terms, request)
        else:
            slot = self._image_gate.lease(limit, self._open.process_id)
            needs = msgspec.structs.replace(ask, leases=(slot, *ask.leases))
            taken = await self._image_gate.pass_through(limit, lambda: self._admit(needs, terms, request))
        return choices[max(taken, 0)]

    async def _admit(self, ask: AdmissionAsk, terms: Terms, request: RelayRequest) -> int:
        """The index of the candidate that was taken. Raises Refusal, and NoImageSlot."""
        try:
            admission = await self._take(ask)
        except StoreUnavailable as error:
            if not self._may_run_unheld(ask):
                raise _counted(store_unavailable()) from error
            self._open.open(_open_request(ask, terms, -1, is_stream=request.ask.stream, is_unheld=True))
            return -1
        match admission:
            case RefusedLimit(name=name) if name.startswith(IMAGE_LEASE):
                raise NoImageSlot
            case RefusedLimit():
                raise _counted(limit_refusal(admission))
            case RefusedBalance():
                raise _counted(balance_refusal(admission))
            case AccountUnknown():
                raise _counted(store_unavailable())
            case Admitted():
                self._outage.saw(ask.account_id, admission.available_nano)
        self._open.open(_open_request(ask, terms, admission.candidate, is_stream=request.ask.stream))
        return admission.candidate

    async def _take(self, ask: AdmissionAsk) -> Admission:
        """Once more where the store had not seen the account yet. Errors: StoreUnavailable."""
        admission = await self._port.admit(self._open.epoch, ask)
        if isinstance(admission, AccountUnknown):
            await self._port.accounts_put([await self._load_account(ask.account_id)])
            admission = await self._port.admit(self._open.epoch, ask)
        return admission

    def _may_run_unheld(self, ask: AdmissionAsk) -> bool:
        is_limited = bool(ask.leases or ask.rates or ask.candidates)
        return not is_limited and self._outage.take(ask.account_id, ask.hold_nano)


def _image_limit(request: RelayRequest, flags: Mapping[str, object]) -> ImageLimit | None:
    limit = ImageLimit.of(flags)
    if limit is None:
        return None
    draws = is_image_request(
        request.method,
        request.path,
        model=request.ask.model,
        fields=request.ask.fields,
        model_patterns=_patterns(flags),
    )
    return limit if draws else None


def _patterns(flags: Mapping[str, object]) -> tuple[str, ...]:
    patterns = flags["IMAGE_MODEL_PATTERNS"]
    return patterns if isinstance(patterns, tuple) else ()


def _ask(
    request: RelayRequest,
    terms: Terms,
    now: datetime.datetime,
    candidates: Sequence[asks.Candidate],
) -> AdmissionAsk:
    is_stream = request.ask.stream
    return AdmissionAsk(
        request_id=request.id,
        account_id=request.caller.tenant_id,
        hold_nano=hold_nano(request, terms),
        leases=asks.caller_leases(request.caller, is_stream=is_stream),
        rates=asks.rates(request),
        candidates=tuple(asks.candidate_leases(pair, is_stream=is_stream) for pair in candidates),
        record=open_record_encode(
            OpenRecord(
                draft=draft_outcome(request, now.timestamp()),
                price_id=terms.price.id if terms.price else None,
                multiplier_id=terms.multiplier.id if terms.multiplier else None,
            )
        ),
    )


def _open_request(
    ask: AdmissionAsk, terms: Terms, candidate: int, *, is_stream: bool, is_unheld: bool = False
) -> OpenRequest:
    held = {ADMISSION_HOLDER: tuple(lease.name for lease in ask.leases)}
    if candidate >= 0:
        held[""] = tuple(lease.name for lease in ask.candidates[candidate])
    return OpenRequest(
        request_id=ask.request_id,
        account_id=ask.account_id,
        hold_nano=ask.hold_nano,
        terms=terms,
        is_stream=is_stream,
        is_unheld=is_unheld,
        record=ask.record,
        leases=held,
        tokens_taken={rate.name: rate.amount for rate in ask.rates if rate.name.startswith("tpm:")},
    )


def _counted(refusal: Refusal) -> Refusal:
    metrics.ADMISSIONS_REFUSED.labels(refusal.code or "").inc()
    return refusal
