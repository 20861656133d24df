"""Tenants: who pays. A tenant belongs to one group, which decides the channels it may use."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from channels_admin.models.base import RateLimitedModel, VersionedModel, choice_check, choices, filled_check
from channels_admin.statuses import AccessStatus
from channels_admin.validators import validate_visible_name


class Tenant(RateLimitedModel, VersionedModel):
    name = models.CharField(_("name"), max_length=100, unique=True, validators=[validate_visible_name])
    group = models.SlugField(
        _("group"),
        max_length=50,
        default="default",
        help_text=_("The tenant uses the channels of this group."),
    )
    status = models.CharField(
        _("status"),
        max_length=16,
        choices=choices(AccessStatus),
        default=AccessStatus.ACTIVE.value,
        db_index=True,
        editable=False,
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("tenant")
        verbose_name_plural = _("tenants")
        ordering = ("name",)
        constraints = (
            choice_check("tenant", "status", AccessStatus),
            filled_check("tenant", "name"),
            filled_check("tenant", "group"),
        )

    def __str__(self) -> str:
        return self.name
