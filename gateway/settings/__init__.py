"""Django settings, one concern a file. They import without any environment: the embedded default."""

from gateway.settings.apps import *  # noqa: F403  Django reads settings as names of this module
from gateway.settings.background import *  # noqa: F403
from gateway.settings.console import *  # noqa: F403
from gateway.settings.database import *  # noqa: F403
from gateway.settings.logs import *  # noqa: F403
from gateway.settings.relay import *  # noqa: F403
from gateway.settings.security import *  # noqa: F403
