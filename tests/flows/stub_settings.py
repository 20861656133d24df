"""The gateway's settings with the stub views in place of the relay, for tests that start `manage.py serve`."""

from gateway.settings import *  # noqa: F403  Django reads settings as names of this module

ASGI_APPLICATION = "tests.flows.stub_asgi.application"
