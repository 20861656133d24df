"""Upstream keys: seal and add, switch on and off, seal again after a rotation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext as _

from channels_admin.crypto import mask, sealer
from channels_admin.health import Route, RouteKind
from channels_admin.models import Channel, UpstreamKey
from channels_admin.services.config_version import configuration_change, row_save, row_switch
from channels_admin.services.limit_fields import ConcurrencyFields
from channels_admin.services.route_health import route_forget_failures
from channels_admin.statuses import RouteStatus
from relay.core.upstream_kinds import UPSTREAM_KINDS

KEY_MAX_LETTERS = 4096


@dataclass(frozen=True, slots=True)
class UpstreamKeysAdded:
    """added: new rows, and closed ones that were opened again. present: were there already, unchanged."""

    added: tuple[UpstreamKey, ...]
    present: tuple[UpstreamKey, ...]


def upstream_key_add(*, channel_id: int, plain: str) -> UpstreamKey:
    """The channel's row for this credential, new or not. Raises ValidationError, Channel.DoesNotExist."""
    result = upstream_keys_add(channel_id=channel_id, plains=[plain])
    return (result.added or result.present)[0]


def upstream_keys_add(*, channel_id: int, plains: Sequence[str]) -> UpstreamKeysAdded:
    """All or none. A credential that the channel has is not added twice; a closed one comes back."""
    with configuration_change() as version:
        channel = Channel.objects.get(pk=channel_id)
        added: list[UpstreamKey] = []
        present: list[UpstreamKey] = []
        for plain in dict.fromkeys(plains):
            upstream_key_check(plain, kind=channel.kind)
            known = UpstreamKey.objects.filter(
                channel=channel, fingerprint__in=sealer().fingerprints(plain)
            ).first()
            if known is None:
                added.append(_new(channel, plain, version))
            elif known.status == RouteStatus.CLOSED:
                _stamp_status(known, version, RouteStatus.ENABLED, "")
                added.append(known)
            else:
                present.append(known)
        return UpstreamKeysAdded(tuple(added), tuple(present))


def upstream_key_check(plain: str, *, kind: str) -> None:
    """Raises ValidationError, which never repeats the credential."""
    is_text = plain.isascii() and plain.isprintable() and not any(letter.isspace() for letter in plain)
    if not plain or not is_text or len(plain) > KEY_MAX_LETTERS:
        raise ValidationError(_("An upstream key is printable ASCII without spaces."), code="invalid")
    try:
        UPSTREAM_KINDS[kind].credentials(plain)
    except (KeyError, ValueError):
        raise ValidationError(_("This type of channel cannot use such an upstream key.")) from None


def upstream_key_set_status(*, upstream_key_id: int, status: RouteStatus, reason: str = "") -> UpstreamKey:
    """reason: a few words for the console, at most 200 letters; never an upstream's text."""
    with configuration_change() as version:
        key = UpstreamKey.objects.get(pk=upstream_key_id)
        _stamp_status(key, version, status, reason)
        if status is RouteStatus.ENABLED:
            route_forget_failures(Route(RouteKind.KEY, key.pk))
        return key


def upstream_key_update(*, upstream_key_id: int, **fields: Unpack[ConcurrencyFields]) -> UpstreamKey:
    """Its ceilings; 0 = no limit. Raises ValidationError, UpstreamKey.DoesNotExist."""
    with configuration_change() as version:
        key = UpstreamKey.objects.get(pk=upstream_key_id)
        row_save(key, version, fields)
        return key


def upstream_keys_reseal() -> int:
    """Seals with the newest sealing key what an older one sealed; returns how many. Raises CryptoError."""
    with configuration_change() as version:
        old = [key for key in UpstreamKey.objects.order_by("pk") if not sealer().is_current(key.sealed)]
        for key in old:
            plain = sealer().unseal(key.sealed)
            row_switch(
                key, version, {"sealed": sealer().seal(plain), "fingerprint": sealer().fingerprint(plain)}
            )
        return len(old)


def _new(channel: Channel, plain: str, version: int) -> UpstreamKey:
    key = UpstreamKey(
        channel=channel,
        label=mask(plain),
        sealed=sealer().seal(plain),
        fingerprint=sealer().fingerprint(plain),
    )
    row_save(key, version)
    return key


def _stamp_status(key: UpstreamKey, version: int, status: RouteStatus, reason: str) -> None:
    row_switch(
        key,
        version,
        {"status": status.value, "status_reason": reason, "status_changed_at": timezone.now()},
    )
