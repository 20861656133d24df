"""Deploy mistakes of this app's settings, as system checks with ids."""

import os
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from channels_admin.crypto import BadSealingKeys, Sealer
from channels_admin.flags import FLAGS, FlagError, environment_value


@register()
def flags_in_environment_check(**_: Any) -> list[CheckMessage]:
    """E001: a runtime flag's environment value does not parse."""
    errors: list[CheckMessage] = []
    for flag in FLAGS.values():
        try:
            environment_value(flag, os.environ)
        except FlagError as error:
            errors.append(Error(str(error), hint=flag.meaning, id="channels_admin.E001"))
    return errors


@register()
def pinned_flags_check(**_: Any) -> list[CheckMessage]:
    """E002: PINNED_FLAGS names something that is no runtime flag."""
    return [
        Error(f"PINNED_FLAGS names {name}, which is no runtime flag.", id="channels_admin.E002")
        for name in settings.PINNED_FLAGS
        if name not in FLAGS
    ]


@register()
def sealing_keys_check(**_: Any) -> list[CheckMessage]:
    """E003: SEALING_KEYS cannot be used."""
    try:
        Sealer(settings.SEALING_KEYS)
    except BadSealingKeys as error:
        return [Error(str(error), id="channels_admin.E003")]
    return []
