"""How far a regular job has come: one row a job, so that any worker can go on where another ended."""

from django.db import models


class Watermark(models.Model):
    """moment: everything before it is done, by the database's clock."""

    name = models.CharField(max_length=64, primary_key=True)
    moment = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
