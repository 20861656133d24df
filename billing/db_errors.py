"""Which database errors say nothing about the rows. Must not import: anything of billing."""

from django.db import InterfaceError, OperationalError

TRANSIENT_ERRORS = (OperationalError, InterfaceError)
"""Deadlock, serialization failure, locked or lost database: later the same rows may well be written."""
