"""Attempts that were recorded."""

from billing.models import Attempt

_LOOKED_AT = 200
"""The newest attempts of a channel: if none of them was answered, no older one says what it serves now."""


def model_last_answered(channel_id: int) -> str:
    """The model, by the upstream's name, that the channel answered with last; empty if with none lately."""
    newest = Attempt.objects.filter(channel_id=channel_id).order_by("-request_id")
    rows = newest.values_list("model_sent", "committed")[:_LOOKED_AT]
    return next((model for model, was_answered in rows if was_answered and model), "")
