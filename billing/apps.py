from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db.models.signals import post_migrate


class BillingConfig(AppConfig):
    name = "billing"
    verbose_name = "Billing"

    def ready(self) -> None:
        from billing import ledger_guards, roles  # noqa: PLC0415  models must be loaded first

        post_migrate.connect(ledger_guards.after_migrate, sender=self, dispatch_uid="billing.ledger_guards")
        post_migrate.connect(roles.after_migrate, sender=self, dispatch_uid="billing.roles")
        register(ledger_guards.check_guards, Tags.database)
