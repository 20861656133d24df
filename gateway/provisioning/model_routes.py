"""Model routes of a file. A route is known by its model and group."""

from collections.abc import Collection, Iterable

from channels_admin.models import ModelRoute
from channels_admin.services import model_route_close, model_route_set
from gateway.provisioning.channels import policy_named
from gateway.provisioning.compare import change_texts, differing, field_texts
from gateway.provisioning.findings import Findings
from gateway.provisioning.schema import ModelRouteEntry


def model_routes_provision(
    entries: Iterable[tuple[str, ModelRouteEntry]], findings: Findings, *, policy_names: Collection[str]
) -> None:
    """entries: path in the file, entry. policy_names: policies of the file, refused ones too."""
    for path, entry in entries:
        wanted = entry.given(without=("model", "group", "policy", "status"))
        if "policy" in entry.model_fields_set:
            wanted["policy"] = policy_named(path, entry.policy, findings, policy_names)
        with findings.at(path):
            _provision(entry, wanted, findings)


def _provision(entry: ModelRouteEntry, wanted: dict[str, object], findings: Findings) -> None:
    what = f"model route {entry.model}" + (f" for group {entry.group}" if entry.group else "")
    row = ModelRoute.objects.filter(model=entry.model, group=entry.group, is_closed=False).first()
    if entry.status == "closed":
        if row is not None:
            model_route_close(route_id=row.pk)
        findings.compared(what, [] if row is None else ["closed"])
        return
    changing = wanted if row is None else differing(row, wanted)
    texts = field_texts(wanted) if row is None else change_texts(row, changing)
    if row is None or changing:
        model_route_set(model=entry.model, group=entry.group, **changing)  # type: ignore[arg-type]  # the schema's fields are the service's
    if row is None:
        findings.created(what, texts)
    else:
        findings.compared(what, texts)
