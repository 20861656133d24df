"""What every configured row shares: the configuration version that last changed it."""

from collections.abc import Callable, Iterable
from enum import StrEnum

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from channels_admin.validators import validate_finite

DAY_SECONDS = 86_400
_KINDS: dict[type, str] = {list: "list", dict: "object"}


class VersionedModel(models.Model):
    """Stamped by the services only; processes reload the rows whose version is newer than theirs."""

    version = models.BigIntegerField(_("version"), default=0, db_index=True, editable=False)

    class Meta:
        abstract = True

    def clean(self) -> None:
        """JSON lists stay lists and JSON objects objects: validators do not see a blank of another type."""
        for field in self._meta.concrete_fields:
            if isinstance(field, models.JSONField) and not field.null:
                kind = type(field.get_default())
                if not isinstance(getattr(self, field.attname), kind):
                    raise ValidationError(
                        {field.name: _("A JSON %(kind)s is expected.") % {"kind": _KINDS[kind]}}
                    )


class LimitedModel(models.Model):
    """Ceilings over all processes that share a store; 0 = none."""

    max_concurrent_requests = models.PositiveIntegerField(
        _("concurrent requests"), default=0, help_text=_("0: no limit.")
    )
    max_concurrent_streams = models.PositiveIntegerField(
        _("concurrent streams"), default=0, help_text=_("0: no limit.")
    )

    class Meta:
        abstract = True


class RateLimitedModel(LimitedModel):
    requests_per_minute = models.PositiveIntegerField(
        _("requests per minute"), default=0, help_text=_("0: no limit.")
    )
    tokens_per_minute = models.PositiveIntegerField(
        _("tokens per minute"), default=0, help_text=_("0: no limit.")
    )

    class Meta:
        abstract = True


def seconds(lowest: float = 0, highest: float = DAY_SECONDS) -> list[Callable[[float], None]]:
    """Validators of a duration, told at the field; `range_check` says the same to the database."""
    return [validate_finite, MinValueValidator(lowest), MaxValueValidator(highest)]


def range_check(
    table: str, field: str, lowest: float, highest: float, *, nullable: bool = False
) -> models.CheckConstraint:
    inside = models.Q(**{f"{field}__gte": lowest, f"{field}__lte": highest})
    if nullable:
        inside |= models.Q(**{f"{field}__isnull": True})
    return models.CheckConstraint(condition=inside, name=f"{table}_{field}_range")


def choice_check(table: str, field: str, words: Iterable[StrEnum]) -> models.CheckConstraint:
    known = [str(word) for word in words]
    return models.CheckConstraint(
        condition=models.Q(**{f"{field}__in": known}), name=f"{table}_{field}_known"
    )


def filled_check(table: str, field: str) -> models.CheckConstraint:
    return models.CheckConstraint(condition=~models.Q(**{field: ""}), name=f"{table}_{field}_filled")


def choices(words: Iterable[StrEnum], *, labels: dict[str, str] | None = None) -> list[tuple[str, str]]:
    """Enum → Django choices; the label is the word itself unless one is given."""
    labels = labels or {}
    return [(str(word), labels.get(word, str(word).replace("_", " "))) for word in words]
