"""Stream policies of a file."""

from collections.abc import Iterable

from channels_admin.models import StreamPolicy
from channels_admin.services import stream_policy_create, stream_policy_update
from gateway.provisioning.compare import change_texts, differing, field_texts
from gateway.provisioning.findings import Findings
from gateway.provisioning.schema import StreamPolicyEntry


def stream_policies_provision(entries: Iterable[tuple[str, StreamPolicyEntry]], findings: Findings) -> None:
    """entries: path in the file, entry."""
    for path, entry in entries:
        with findings.at(path):
            _provision(entry, findings)


def _provision(entry: StreamPolicyEntry, findings: Findings) -> None:
    what = f"stream policy {entry.name}"
    wanted = entry.given()
    row = StreamPolicy.objects.filter(name=entry.name).first()
    if row is None:
        stream_policy_create(**wanted)  # type: ignore[arg-type]  # the schema's fields are the service's
        findings.created(what, field_texts(wanted))
        return
    changing = differing(row, wanted)
    texts = change_texts(row, changing)
    if changing:
        stream_policy_update(policy_id=row.pk, **changing)  # type: ignore[arg-type]  # see above
    findings.compared(what, texts)
