"""Which models a caller may ask for, for the lists of every API."""

from django.http import HttpRequest

from gateway import wiring
from gateway.relay_flow import caller_of
from relay.core.selection import listed_models
from relay.core.upstream_kinds import speaks


def visible_models(request: HttpRequest, dialect: str | None = None) -> list[str]:
    """Sorted names. dialect: only models that can be asked in it."""
    caller = caller_of(request)
    config = wiring.current().configuration.current
    known = config.channels.channels.values()
    channels = [channel for channel in known if dialect is None or speaks(channel.kind, dialect)]
    return listed_models(channels, caller.group, caller.allowed_models, config.priced_models(caller.group))
