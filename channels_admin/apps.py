"""The app: registers its checks; after each migration makes its roles and the rows the console lists."""

from typing import Any

from django.apps import AppConfig
from django.apps import apps as installed_apps
from django.db.models.signals import post_migrate


class ChannelsAdminConfig(AppConfig):
    name = "channels_admin"
    verbose_name = "Channels"

    def ready(self) -> None:
        from channels_admin import checks  # noqa: F401, PLC0415  registers them; models must be loaded first

        post_migrate.connect(_rows_ensure, sender=self)


def _rows_ensure(apps: Any = installed_apps, **_: Any) -> None:
    """Also after a flush, which names no `apps`. Not while migrating back: then the tables are gone."""
    from channels_admin.roles import ROLE_PERMISSIONS, role_permissions_sync  # noqa: PLC0415  needs models
    from channels_admin.services.config_version import config_version_ensure  # noqa: PLC0415  needs models
    from channels_admin.services.runtime_flags import runtime_flag_rows_ensure  # noqa: PLC0415  needs models

    try:
        apps.get_model("channels_admin", "RuntimeFlag")
    except LookupError:
        return
    config_version_ensure()
    runtime_flag_rows_ensure()
    role_permissions_sync(app_label="channels_admin", grants=ROLE_PERMISSIONS)
