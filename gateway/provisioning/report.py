"""Findings as text: one line a change. Pure; API keys that were made come last."""

from collections import Counter
from collections.abc import Iterator

from gateway.provisioning.findings import Report, Verb

_DONE = {Verb.CREATE: "created", Verb.CHANGE: "changed", Verb.UNCHANGED: "unchanged"}


def report_lines(report: Report) -> Iterator[str]:
    """What was done, or, after a dry run, what would be."""
    for change in report.changes:
        details = f": {', '.join(change.details)}" if change.details else ""
        yield f"{change.verb:<9}  {change.what}{details}"
    if not report.has_changes:
        yield "nothing to change"
    else:
        counts = Counter(change.verb for change in report.changes)
        summary = ", ".join(f"{counts[verb]} {_DONE[verb]}" for verb in Verb)
        yield f"dry run, nothing was changed; would be {summary}" if report.is_dry_run else summary
    if report.new_api_keys:
        yield ""
        yield "New API keys, shown this once:"
        for key in report.new_api_keys:
            yield f"  tenant {key.tenant}, {key.name}: {key.plain}"
