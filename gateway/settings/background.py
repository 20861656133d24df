"""Celery: eager and brokerless without REDIS_URL, a real broker with it; the channel layer likewise."""

from billing.schedule import BEAT_SCHEDULE
from gateway.schedule import GATEWAY_SCHEDULE
from gateway.settings.environment import ENV

CELERY_BROKER_URL = ENV.CELERY_BROKER_URL or ENV.REDIS_URL or "memory://localhost"
CELERY_TASK_ALWAYS_EAGER = not ENV.REDIS_URL
CELERY_TASK_EAGER_PROPAGATES = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_TIME_LIMIT = 25  # below the visibility timeout: a longer task would run twice
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BEAT_SCHEDULE = {**BEAT_SCHEDULE, **GATEWAY_SCHEDULE}
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]

if CELERY_BROKER_URL.startswith(("redis://", "rediss://")):
    # By default a batch held by a killed worker comes back after an hour.
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "visibility_timeout": 30,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        "socket_timeout": 1,
        "socket_connect_timeout": 1,
    }

CHANNEL_LAYERS = {
    "default": (
        {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [ENV.REDIS_URL]},
        }
        if ENV.REDIS_URL
        else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    ),
}
