"""The runtime's recorder: hands an outcome to the courier with the terms it was admitted on."""

import contextlib

from billing.admission import AdmissionPort, StoreUnavailable
from billing.core.charging import attempt_charged
from billing.courier import Courier
from billing.valuation import Reported
from gateway.admission.idempotency import Idempotency
from gateway.admission.open_requests import OpenRequest, OpenRequests
from gateway.config import Configuration
from gateway.metrics import REQUESTS
from relay.core.end_reasons import EndReason
from relay.core.estimate import Evidence
from relay.core.outcomes import RequestOutcome
from relay.upstream.aio_tasks import spawn

_ENDED = {reason: REQUESTS.labels(reason) for reason in EndReason}
"""Looked up once: finding a label's counter costs as much as counting."""


class OutcomeReporter:
    """`relay.upstream.ports.Recorder`."""

    def __init__(
        self,
        open_requests: OpenRequests,
        courier: Courier,
        *,
        port: AdmissionPort,
        configuration: Configuration,
        idempotency: Idempotency,
    ) -> None:
        self._open = open_requests
        self._courier = courier
        self._configuration = configuration
        self._idempotency = idempotency
        self._port = port

    def report(self, outcome: RequestOutcome, evidence: Evidence) -> None:
        _ENDED[outcome.end_reason].inc()
        self._idempotency.ended(outcome)
        request = self._open.close(outcome.request_id)
        if request is None:
            self._courier.report(Reported(outcome, evidence, account_id=outcome.tenant_id))
            return
        if request.tokens_taken:
            self._correct(request, outcome)
        self._courier.report(
            Reported(
                outcome,
                evidence,
                request.terms,
                request.account_id,
                charges_input_on_leave=self._charges_input_on_leave(outcome),
            )
        )

    def _correct(self, request: OpenRequest, outcome: RequestOutcome) -> None:
        """Tokens were counted by the prompt's bound; now its true size and the answer's are known."""
        usage = outcome.usage
        if usage is not None and usage.input is not None:
            used = usage.input + (usage.output or 0)
            amounts = {name: used - taken for name, taken in request.tokens_taken.items()}
            spawn(self._correct_rates(amounts), name="rates")

    async def _correct_rates(self, amounts: dict[str, int]) -> None:
        with contextlib.suppress(StoreUnavailable):  # the minute is over sooner than the store is back
            await self._port.correct_rates(amounts)

    def _charges_input_on_leave(self, outcome: RequestOutcome) -> bool:
        attempt = attempt_charged(outcome)
        if attempt is None:
            return False
        channel = self._configuration.current.channels.listed.get(attempt.channel_id)
        return channel is not None and channel.charge_input_on_leave
