"""Runtime flags of a file."""

from collections.abc import Mapping

from channels_admin.flags import FLAGS, IMAGE_FAILOVER_FLAGS, FlagError, flag_named, is_pinned
from channels_admin.models import RuntimeFlag
from channels_admin.services import runtime_flags_set
from channels_admin.services.runtime_flags import IMAGE_FAILOVER_SWITCH
from gateway.provisioning.compare import change_text
from gateway.provisioning.findings import Findings
from gateway.provisioning.reading import did_you_mean

CHANGED_BY = "manage.py apply"


def flags_provision(asked: Mapping[str, object], findings: Findings) -> None:
    """Console values; null clears one, so that environment or default count again."""
    wanted = {name: _value(name, asked) for name in asked if _is_sound(name, asked, findings)}
    before = _stored()
    changing = {name: value for name, value in wanted.items() if before.get(name) != value}
    if changing:
        with findings.at("flags"):
            runtime_flags_set(values=changing, changed_by=CHANGED_BY)
    after = _stored()
    # Switching image failover off switches its ranges off as well: they are reported, too.
    for name in FLAGS:
        if name in wanted or before.get(name) != after.get(name):
            old, new = before.get(name), after.get(name)
            findings.compared(f"flag {name}", [] if old == new else [change_text("value", old, new)])


def _is_sound(name: str, asked: Mapping[str, object], findings: Findings) -> bool:
    path = f"flags.{name}"
    if name not in FLAGS:
        findings.problem(path, f"no such runtime flag{did_you_mean(name, FLAGS)}")
        return False
    if is_pinned(name):
        findings.problem(path, "is fixed by the environment (PINNED_FLAGS) and cannot be set here")
        return False
    try:
        value = _value(name, asked)
    except FlagError as error:
        findings.problem(path, _reason(name, error))
        return False
    if value is True and name in IMAGE_FAILOVER_FLAGS and _switches_failover_off(asked):
        findings.problem(path, f"{IMAGE_FAILOVER_SWITCH}: false switches this off as well")
        return False
    return True


def _reason(name: str, error: FlagError) -> str:
    text = str(error).removeprefix(f"{name}: ")
    return text[:1].lower() + text[1:]


def _switches_failover_off(asked: Mapping[str, object]) -> bool:
    try:
        return IMAGE_FAILOVER_SWITCH in asked and _value(IMAGE_FAILOVER_SWITCH, asked) is False
    except FlagError:
        return False


def _value(name: str, asked: Mapping[str, object]) -> object | None:
    """As it is stored: JSON types only. Raises FlagError."""
    value = asked[name]
    parsed = None if value is None else flag_named(name).parse(value)
    return list(parsed) if isinstance(parsed, tuple) else parsed


def _stored() -> dict[str, object | None]:
    return dict(RuntimeFlag.objects.values_list("name", "value"))
