"""Runtime flags: save a console value, or clear it so that environment or default count again."""

from collections.abc import Mapping

from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext as _

from channels_admin.flags import FLAGS, IMAGE_FAILOVER_FLAGS, FlagError, flag_named, is_pinned
from channels_admin.models import RuntimeFlag
from channels_admin.services.config_version import configuration_change, row_save

IMAGE_FAILOVER_SWITCH, IMAGE_FAILOVER_AMBIGUOUS, IMAGE_FAILOVER_UNCERTAIN = IMAGE_FAILOVER_FLAGS


def runtime_flag_set(*, name: str, value: object, changed_by: str = "") -> RuntimeFlag:
    """Raises ValidationError: no such flag, a value it does not take, or a pinned flag."""
    runtime_flags_set(values={name: value}, changed_by=changed_by)
    return RuntimeFlag.objects.get(name=name)


def runtime_flag_clear(*, name: str, changed_by: str = "") -> RuntimeFlag:
    """Raises ValidationError: no such flag, or a pinned one."""
    runtime_flags_set(values={name: None}, changed_by=changed_by)
    return RuntimeFlag.objects.get(name=name)


def runtime_flags_set(*, values: Mapping[str, object | None], changed_by: str = "") -> None:
    """Several at once, all or none; None clears. Switching image failover off clears both of its ranges."""
    parsed = {name: _parsed(name, value) for name, value in values.items()}
    if parsed.get(IMAGE_FAILOVER_SWITCH) is False:
        # An explicit false: the environment must not widen what the console has switched off.
        parsed |= {name: False for name in IMAGE_FAILOVER_FLAGS if not is_pinned(name)}
    with configuration_change() as version:
        for name, value in parsed.items():
            row = RuntimeFlag.objects.filter(name=name).first() or RuntimeFlag(name=name)
            row_save(row, version, {"value": value, "changed_by": changed_by, "changed_at": timezone.now()})


def image_failover_set(
    *, enabled: bool, ambiguous: bool = False, uncertain: bool = False, changed_by: str = ""
) -> None:
    """The switch with its two ranges, which switching off clears: all saved as said, a false too.

    So the environment cannot widen what was chosen here. A pinned range stays the environment's.
    Raises ValidationError: the switch is pinned.
    """
    values: dict[str, object] = {IMAGE_FAILOVER_SWITCH: enabled}
    ranges = {IMAGE_FAILOVER_AMBIGUOUS: ambiguous, IMAGE_FAILOVER_UNCERTAIN: uncertain}
    values |= {name: value for name, value in ranges.items() if not is_pinned(name)}
    runtime_flags_set(values=values, changed_by=changed_by)


def image_failover_clear(*, changed_by: str = "") -> None:
    """Environment or default count again for whatever of the three is not pinned."""
    names = [name for name in IMAGE_FAILOVER_FLAGS if not is_pinned(name)]
    runtime_flags_set(values=dict.fromkeys(names), changed_by=changed_by)


def runtime_flag_rows_ensure() -> None:
    """A row, cleared, for each known flag, so that the console can list them. Changes no configuration."""
    RuntimeFlag.objects.bulk_create([RuntimeFlag(name=name) for name in FLAGS], ignore_conflicts=True)


def _parsed(name: str, value: object | None) -> object | None:
    """As it is stored: JSON types only."""
    try:
        flag = flag_named(name)
        if is_pinned(name):
            raise ValidationError({"value": _("%(name)s is fixed by the environment.") % {"name": name}})
        parsed = None if value is None else flag.parse(value)
    except FlagError as error:
        raise ValidationError({"value": str(error)}) from error
    return list(parsed) if isinstance(parsed, tuple) else parsed
