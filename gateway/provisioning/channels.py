"""Channels of a file, with their upstream keys."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from django.conf import settings
from django.core.exceptions import ValidationError

from channels_admin.models import Channel, StreamPolicy
from channels_admin.services import channel_create, channel_set_status, channel_update, upstream_keys_add
from channels_admin.statuses import RouteStatus
from gateway.provisioning.compare import change_text, change_texts, differing, field_texts
from gateway.provisioning.findings import Findings
from gateway.provisioning.reading import did_you_mean
from gateway.provisioning.schema import ChannelEntry
from relay.core.url_guard import UnsafeUrl, check_base_url

_NEEDED = ("base_url", "models")


def channels_provision(
    entries: Iterable[tuple[str, ChannelEntry]], findings: Findings, *, policy_names: Collection[str]
) -> None:
    """entries: path in the file, entry. policy_names: policies of the file, refused ones too."""
    for path, entry in entries:
        wanted = _wanted(path, entry, findings, policy_names)
        row = Channel.objects.filter(name=entry.name).first()
        with findings.at(path):
            if row is None:
                _create(path, entry, wanted, findings)
            else:
                _change(path, entry, row, wanted, findings)


def _wanted(
    path: str, entry: ChannelEntry, findings: Findings, policy_names: Collection[str]
) -> dict[str, object]:
    """Field → value as the row keeps it."""
    wanted = entry.given(without=("keys", "policy", "status"))
    if "base_url" in wanted:
        with suppress(UnsafeUrl):  # the row's own validation tells why
            wanted["base_url"] = check_base_url(entry.base_url, settings.UPSTREAM_ALLOWED_PRIVATE_NETS)
    if "policy" in entry.model_fields_set:
        wanted["policy"] = policy_named(path, entry.policy, findings, policy_names)
    return wanted


def policy_named(
    path: str, name: str | None, findings: Findings, policy_names: Collection[str]
) -> StreamPolicy | None:
    """The row, if there is one. policy_names: policies of the file; one that is refused is told once."""
    row = None if name is None else StreamPolicy.objects.filter(name=name).first()
    if name is not None and row is None and name not in policy_names:
        known = StreamPolicy.objects.values_list("name", flat=True)
        findings.problem(f"{path}.policy", f"no such stream policy{did_you_mean(name, known)}")
    return row


def _create(path: str, entry: ChannelEntry, wanted: dict[str, object], findings: Findings) -> None:
    missing = [name for name in _NEEDED if name not in wanted]
    for name in missing:
        findings.problem(f"{path}.{name}", "is missing; a new channel needs it")
    if missing:
        return
    what, texts = f"channel {entry.name}", field_texts(wanted)
    row = channel_create(status=RouteStatus(entry.status), **wanted)  # type: ignore[arg-type]  # the schema's fields are the service's
    if entry.status != RouteStatus.ENABLED.value:
        texts.append(f"status {entry.status}")
    findings.created(what, [*texts, *_keys(path, entry, row, findings)])
    _warn(row, findings)


def _change(
    path: str, entry: ChannelEntry, row: Channel, wanted: dict[str, object], findings: Findings
) -> None:
    changing = differing(row, wanted)
    texts = change_texts(row, changing)
    if "status" in entry.model_fields_set and row.status != entry.status:
        texts.append(change_text("status", row.status, entry.status))
        row = channel_set_status(channel_id=row.pk, status=RouteStatus(entry.status))
    if changing:
        row = channel_update(channel_id=row.pk, **changing)  # type: ignore[arg-type]  # see above
    findings.compared(f"channel {entry.name}", [*texts, *_keys(path, entry, row, findings)])
    _warn(row, findings)


def _keys(path: str, entry: ChannelEntry, row: Channel, findings: Findings) -> Sequence[str]:
    """Adds those that the channel lacks; the others of the channel stay. One text each, never a key."""
    texts = []
    for at, key in enumerate(entry.keys):
        try:
            result = upstream_keys_add(channel_id=row.pk, plains=[key.get_secret_value()])
        except ValidationError as error:
            findings.problem(f"{path}.keys[{at}]", error.messages[0].removesuffix("."))
            continue
        texts += [f"upstream key {added.label} added" for added in result.added]
    return texts


def _warn(row: Channel, findings: Findings) -> None:
    if row.status != RouteStatus.ENABLED.value:
        findings.warnings.append(f"channel {row.name} is {row.status.replace('_', ' ')}: it serves nothing")
    elif not row.upstream_keys.filter(status=RouteStatus.ENABLED.value).exists():
        findings.warnings.append(f"channel {row.name} has no enabled upstream key: it serves nothing")
