"""For `--without-billing`: everybody is admitted at once, every outcome is forgotten."""

from collections.abc import Sequence

from gateway.admission import Admissions
from gateway.admission.asks import Candidate
from gateway.admission.reporting import OutcomeReporter
from gateway.config import ConfigSnapshot
from relay.core.estimate import Evidence
from relay.core.outcomes import RequestOutcome
from relay.core.request import RelayRequest


class NoAdmission(Admissions):
    async def admit(
        self, request: RelayRequest, choices: Sequence[Candidate], config: ConfigSnapshot
    ) -> Candidate:
        return choices[0]


class NoReport(OutcomeReporter):
    def report(self, outcome: RequestOutcome, evidence: Evidence) -> None:
        """No settlement, nothing for the courier."""
