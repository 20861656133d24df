"""One row: the number of the newest committed configuration."""

from django.db import models


class ConfigVersion(models.Model):
    """Changed first in each configuration transaction: its row lock makes commit order version order."""

    number = models.BigIntegerField(default=0)

    class Meta:
        constraints = (models.CheckConstraint(condition=models.Q(pk=1), name="config_version_single_row"),)

    def __str__(self) -> str:
        return str(self.number)
