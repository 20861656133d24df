"""The embedded store's mirror: open records of the one serving process, so that a kill -9 loses no money.

Written by `billing.admission`, within 100 ms, only where the store lives in the process. With Redis the
table stays empty.
"""

from django.db import models
from django.utils.translation import gettext_lazy as _


class OpenRecordRow(models.Model):
    """payload: account, what is held or charged, and the encoded record, see `billing.admission.mirror`."""

    request_id = models.CharField(_("request id"), max_length=64, primary_key=True)
    state = models.CharField(_("state"), max_length=16)
    epoch = models.CharField(_("process epoch"), max_length=64)
    payload = models.BinaryField(_("payload"))

    class Meta:
        verbose_name = _("open record")
        verbose_name_plural = _("open records")

    def __str__(self) -> str:
        return self.request_id
