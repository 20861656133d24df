"""docs/end-reasons.md: how an attempt can end, from `relay.core.end_reasons`."""

from gateway.reference.markdown import code, page, table
from relay.core.end_reasons import ENDINGS, Charge, EndReason, HealthEffect

WITHOUT_CAUSE = frozenset({EndReason.PING_FAILED, EndReason.STOPPED_BY_OPERATOR})
"""Reserved: nothing in this version ends an attempt so. A test demands that whoever does takes it out."""

_INTRO = """\
Each attempt ends with exactly one of these reasons, and a request with that of its last attempt. The
reason stands in the console's request records and in `GET /v1/requests/{id}`. A 200 proves nothing:
the answer's status line is sent long before its end.

*Blame* says whose doing it was. *Health* and *charge* say what the reason means for the channel and for
the tenant.
Nothing in this version causes the reasons marked †."""

_HEALTH = {
    HealthEffect.SUCCESS: "success",
    HealthEffect.FAILURE: "failure",
    HealthEffect.NEUTRAL: "neutral",
    HealthEffect.BY_STATUS: "by status",
}
_CHARGE = {
    Charge.USAGE: "usage",
    Charge.WHAT_ARRIVED: "what arrived",
    Charge.NOTHING: "nothing",
    Charge.LAST_CHECKPOINT: "last checkpoint",
}
_NOTES = """\
- *Charge* holds for an attempt that ended after its commit point, when the client had been answered.
  An attempt that failed before it is not the tenant's.
- *usage*: as the upstream reported it. *what arrived*: what the upstream had sent by then.
  *last checkpoint*: what was last known of it.
- *by status*: 401, 402, 403, 408, 5xx, and 404 for a model that the channel names, are failures; other
  statuses are neutral."""


def end_reasons_page() -> str:
    rows = [
        [
            code(reason) + (" †" if reason in WITHOUT_CAUSE else ""),
            ending.meaning,
            ending.blame,
            _HEALTH[ending.health],
            _CHARGE[ending.charge],
        ]
        for reason, ending in ENDINGS.items()
    ]
    head = ["End reason", "Meaning", "Blame", "Health", "Charge"]
    return page("End reasons", _INTRO, table(head, rows), "## Notes", _NOTES)
