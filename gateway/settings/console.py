"""Look, language and static files of the console."""

from django.templatetags.static import static
from django.utils.translation import gettext_lazy as _

from gateway.settings.environment import BASE_DIR

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
USE_I18N = True

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Files are served from the packages themselves: no collectstatic step before a first start, so no
# STATIC_ROOT, about whose absence Whitenoise would warn at each start.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False

UNFOLD = {
    "SITE_TITLE": "Sluice",
    "SITE_HEADER": "Sluice",
    "SITE_SYMBOL": "water",
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda _request: static("favicon.svg")},
    ],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
}
