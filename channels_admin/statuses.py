"""Statuses of configuration rows. No Django, no I/O."""

from enum import StrEnum


class RouteStatus(StrEnum):
    """State of a channel or an upstream key. Only `enabled` ones serve requests."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    """By hand: no probe brings it back."""
    AUTO_DISABLED = "auto_disabled"
    """By the health counters: a passing probe brings it back."""
    CLOSED = "closed"
    """Stands for deletion: kept because records name it."""


class AccessStatus(StrEnum):
    """State of a tenant or an API key."""

    ACTIVE = "active"
    CLOSED = "closed"
