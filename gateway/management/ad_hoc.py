"""Upstreams that are named on the command line and stand in no configuration."""

import os
from ipaddress import IPv4Network, IPv6Network, ip_network

from django.core.management.base import CommandError

from relay.core.types import Channel, PlainSecret, UpstreamKey
from relay.core.url_guard import UnsafeUrl, check_base_url

Networks = tuple[IPv4Network | IPv6Network, ...]

# Whoever may run commands here may dial what this machine can dial.
ANYWHERE: Networks = (ip_network("0.0.0.0/0"), ip_network("::/0"))
_NO_KEY = "none"


def key_from_environment(option: str, variable: str | None) -> str:
    """The key that the variable holds. Raises CommandError, naming the option, where it is not set."""
    if variable is None:
        return _NO_KEY
    value = os.environ.get(variable, "")
    if not value:
        raise CommandError(f"{option} {variable}: that variable is not set.")
    return value


def url_channel(option: str, base_url: str, kind: str, key: str, number: int = 0) -> Channel:
    """A channel with one key. Raises CommandError, naming the option, for a URL that is none."""
    try:
        checked = check_base_url(base_url, ANYWHERE)
    except UnsafeUrl as error:
        raise CommandError(f"{option}: {error}") from error
    keys = (UpstreamKey(id=number, label="", secret=PlainSecret(key)),)
    return Channel(id=number, name=checked, kind=kind, base_url=checked, models=("*",), keys=keys)
