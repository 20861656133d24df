"""API keys of tenants. Only the digest is kept; the key itself is shown once, when it is issued."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from channels_admin.models.base import RateLimitedModel, VersionedModel, choice_check, choices, filled_check
from channels_admin.models.tenants import Tenant
from channels_admin.statuses import AccessStatus
from channels_admin.validators import validate_model_patterns, validate_networks, validate_visible_name


class ApiKey(RateLimitedModel, VersionedModel):
    """When it was last used is state, not configuration, and lives elsewhere."""

    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, related_name="api_keys", verbose_name=_("tenant")
    )
    name = models.CharField(_("name"), max_length=100, validators=[validate_visible_name])
    digest = models.CharField(max_length=64, unique=True, editable=False)
    prefix = models.CharField(_("key"), max_length=16, editable=False)
    status = models.CharField(
        _("status"),
        max_length=16,
        choices=choices(AccessStatus),
        default=AccessStatus.ACTIVE.value,
        db_index=True,
        editable=False,
    )
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    allowed_models = models.JSONField(
        _("allowed models"),
        default=list,
        blank=True,
        validators=[validate_model_patterns],
        help_text=_("Names or patterns with *, one a line. Empty: all."),
    )
    allowed_networks = models.JSONField(
        _("allowed networks"),
        default=list,
        blank=True,
        validators=[validate_networks],
        help_text=_("Addresses or networks (CIDR) that may use the key, one a line. Empty: all."),
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        ordering = ("tenant__name", "name")
        constraints = (
            # A closed key keeps its name for the records; a new one may take it over.
            models.UniqueConstraint(
                fields=["tenant", "name"],
                condition=models.Q(status=AccessStatus.ACTIVE.value),
                name="api_key_active_name_unique",
                violation_error_message=_("This tenant has an active API key of this name."),
            ),
            choice_check("api_key", "status", AccessStatus),
            filled_check("api_key", "name"),
            models.CheckConstraint(
                condition=models.Q(digest__regex=r"^[0-9a-f]{64}$"), name="api_key_digest_is_sha256"
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
