"""The gateway's settings, and an app that takes admission and settlement out of its composition root.

What both add is the difference between two servers. The product knows nothing of it.
"""

from django.apps import AppConfig

from gateway.settings import *  # noqa: F403  Django reads settings as names of this module
from gateway.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "tests.bench.unbilled_settings.Unbilled"]


class Unbilled(AppConfig):
    name = "tests.bench"
    label = "unbilled"

    def ready(self) -> None:
        from gateway import wiring  # noqa: PLC0415  models must be loaded first
        from tests.bench.unbilled import NoAdmission, NoReport  # noqa: PLC0415

        vars(wiring).update(Admissions=NoAdmission, OutcomeReporter=NoReport)
