"""Keys, hosts, cookies, login throttling and content security of the console."""

from csp.constants import NONE, SELF, UNSAFE_EVAL, UNSAFE_INLINE

from gateway.settings.environment import ENV
from gateway.settings.secrets import kept_secret

DEBUG = False
SECRET_KEY = ENV.SECRET_KEY or kept_secret(ENV.DATA_DIR, "secret_key")
SEALING_KEYS: tuple[str, ...] = ENV.SEALING_KEYS or (f"local:{kept_secret(ENV.DATA_DIR, 'sealing_key')}",)

ALLOWED_HOSTS = list(ENV.ALLOWED_HOSTS)
CSRF_TRUSTED_ORIGINS = list(ENV.CSRF_TRUSTED_ORIGINS)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENV.SECURE_COOKIES
SESSION_COOKIE_AGE = 12 * 60 * 60
SESSION_COOKIE_HTTPONLY = True
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 1  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_VERBOSE = False

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        # Alpine, which the theme ships, evaluates expressions.
        "script-src": [SELF, UNSAFE_EVAL],
        # The theme sets inline style attributes.
        "style-src": [SELF, UNSAFE_INLINE],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    },
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
