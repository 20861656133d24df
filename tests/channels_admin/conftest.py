"""Console tests ask for pages, not for files: without WhiteNoise each client starts in no time."""

import pytest


@pytest.fixture(autouse=True)
def pages_only(settings):
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if "whitenoise" not in name]
