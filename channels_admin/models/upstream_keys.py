"""Upstream keys: a channel's credentials, sealed. Nothing here can show one."""

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from channels_admin.models.base import LimitedModel, VersionedModel, choice_check, choices, filled_check
from channels_admin.models.channels import Channel
from channels_admin.statuses import RouteStatus


class UpstreamKey(LimitedModel, VersionedModel):
    """`sealed` is `key id:token`; `fingerprint` a keyed hash that finds the same credential again."""

    channel = models.ForeignKey(
        Channel, on_delete=models.PROTECT, related_name="upstream_keys", verbose_name=_("channel")
    )
    label = models.CharField(_("key"), max_length=32, editable=False)
    sealed = models.TextField(editable=False)
    fingerprint = models.CharField(max_length=128, editable=False)
    status = models.CharField(
        _("status"),
        max_length=16,
        choices=choices(RouteStatus),
        default=RouteStatus.ENABLED.value,
        db_index=True,
        editable=False,
    )
    status_reason = models.CharField(
        _("reason of the status"), max_length=200, blank=True, default="", editable=False
    )
    status_changed_at = models.DateTimeField(_("status since"), default=timezone.now, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("upstream key")
        verbose_name_plural = _("upstream keys")
        ordering = ("channel__name", "pk")
        constraints = (
            models.UniqueConstraint(
                fields=["channel", "fingerprint"],
                name="upstream_key_once_a_channel",
                violation_error_message=_("The channel has this upstream key already."),
            ),
            choice_check("upstream_key", "status", RouteStatus),
            filled_check("upstream_key", "sealed"),
            filled_check("upstream_key", "fingerprint"),
        )

    def __str__(self) -> str:
        return self.label
