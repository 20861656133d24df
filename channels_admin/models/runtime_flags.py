"""Values that the console has given to runtime flags. The flags themselves are in `channels_admin.flags`."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from channels_admin.models.base import VersionedModel, filled_check


class RuntimeFlag(VersionedModel):
    """value: JSON; NULL means cleared, so that environment or default count again."""

    name = models.CharField(_("name"), max_length=100, unique=True)
    value = models.JSONField(_("console value"), null=True, blank=True, default=None)
    changed_by = models.CharField(_("changed by"), max_length=150, blank=True, default="")
    changed_at = models.DateTimeField(_("changed"), null=True, blank=True)

    class Meta:
        verbose_name = _("runtime flag")
        verbose_name_plural = _("runtime settings")
        ordering = ("name",)
        constraints = (filled_check("runtime_flag", "name"),)

    def __str__(self) -> str:
        return self.name
