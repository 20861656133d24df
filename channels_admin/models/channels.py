"""Channels: configured upstream routes. Field classes by name: the field `models` hides that module."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db.models import (
    PROTECT,
    BooleanField,
    CharField,
    DateTimeField,
    FloatField,
    ForeignKey,
    IntegerField,
    JSONField,
    PositiveIntegerField,
)
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from channels_admin.models.base import (
    DAY_SECONDS,
    LimitedModel,
    VersionedModel,
    choice_check,
    choices,
    filled_check,
    range_check,
    seconds,
)
from channels_admin.models.stream_policies import StreamPolicy
from channels_admin.statuses import RouteStatus
from channels_admin.validators import (
    validate_base_url,
    validate_groups,
    validate_header_overrides,
    validate_model_mapping,
    validate_model_patterns,
    validate_not_empty,
    validate_parameter_overrides,
    validate_proxy_url,
    validate_tags,
    validate_visible_name,
)
from relay.core.types import KeyMode
from relay.core.upstream_kinds import UPSTREAM_KINDS

PRIORITY_LIMIT = 1_000_000
WEIGHT_MAX = 1_000_000
CONNECT_TIMEOUT_MIN_SECONDS = 0.1
CONNECT_TIMEOUT_MAX_SECONDS = 120


def kind_choices() -> list[tuple[str, str]]:
    """A callable, so that a new kind needs no migration."""
    return [(name, name.replace("_", " ")) for name in UPSTREAM_KINDS]


def default_groups() -> list[str]:
    return ["default"]


class Channel(LimitedModel, VersionedModel):
    name = CharField(_("name"), max_length=100, unique=True, validators=[validate_visible_name])
    kind = CharField(_("type"), max_length=32, choices=kind_choices, default="openai", db_index=True)
    base_url = CharField(
        _("base URL"),
        max_length=500,
        validators=[validate_base_url],
        help_text=_("For example https://api.example.com, without /v1."),
    )
    proxy_url = CharField(
        _("HTTP proxy"),
        max_length=500,
        blank=True,
        default="",
        validators=[validate_proxy_url],
        help_text=_("Through a proxy the upstream's address is checked by name only."),
    )
    models = JSONField(
        _("models"),
        default=list,
        validators=[validate_not_empty, validate_model_patterns],
        help_text=_("Names or patterns with *, one a line. * alone serves requests without a model too."),
    )
    model_mapping = JSONField(
        _("model mapping"),
        default=dict,
        blank=True,
        validators=[validate_model_mapping],
        help_text=_("Asked model to the model sent upstream."),
    )
    priority = IntegerField(
        _("priority"),
        default=0,
        validators=[MinValueValidator(-PRIORITY_LIMIT), MaxValueValidator(PRIORITY_LIMIT)],
        help_text=_("Higher goes first."),
    )
    weight = PositiveIntegerField(
        _("weight"),
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(WEIGHT_MAX)],
        help_text=_("Share among channels of the same priority."),
    )
    groups = JSONField(_("groups"), default=default_groups, validators=[validate_groups])
    tags = JSONField(_("tags"), default=list, blank=True, validators=[validate_tags])
    status = CharField(
        _("status"),
        max_length=16,
        choices=choices(RouteStatus),
        default=RouteStatus.ENABLED.value,
        db_index=True,
        editable=False,
    )
    status_reason = CharField(
        _("reason of the status"), max_length=200, blank=True, default="", editable=False
    )
    status_changed_at = DateTimeField(_("status since"), default=timezone.now, editable=False)
    policy = ForeignKey(
        StreamPolicy,
        on_delete=PROTECT,
        null=True,
        blank=True,
        related_name="channels",
        verbose_name=_("stream policy"),
        help_text=_("Empty: the default policy."),
    )
    key_mode = CharField(
        _("choice of upstream key"),
        max_length=16,
        choices=choices(KeyMode),
        default=KeyMode.ROUND_ROBIN.value,
    )
    connect_timeout_seconds = FloatField(
        _("connect timeout (s)"),
        validators=seconds(CONNECT_TIMEOUT_MIN_SECONDS, CONNECT_TIMEOUT_MAX_SECONDS),
        default=10,
    )
    non_stream_timeout_seconds = FloatField(
        _("non-stream timeout (s)"),
        validators=seconds(),
        default=0,
        help_text=_("0: the flag NON_STREAM_TIMEOUT_SECONDS."),
    )
    request_stream_usage = BooleanField(
        _("ask for usage in streams"),
        default=True,
        help_text=_("Off for upstreams that refuse stream_options."),
    )
    charge_input_on_leave = BooleanField(
        _("charge input when the client leaves early"),
        default=False,
        help_text=_("For upstreams that bill the prompt even if nothing was answered yet."),
    )
    header_overrides = JSONField(
        _("header overrides"), default=dict, blank=True, validators=[validate_header_overrides]
    )
    parameter_overrides = JSONField(
        _("parameter overrides"),
        default=dict,
        blank=True,
        validators=[validate_parameter_overrides],
        help_text=_("Top-level JSON fields set on every request."),
    )
    created_at = DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("channel")
        verbose_name_plural = _("channels")
        ordering = ("-priority", "name")
        constraints = (
            filled_check("channel", "name"),
            filled_check("channel", "kind"),
            filled_check("channel", "base_url"),
            choice_check("channel", "status", RouteStatus),
            choice_check("channel", "key_mode", KeyMode),
            range_check("channel", "weight", 1, WEIGHT_MAX),
            range_check("channel", "priority", -PRIORITY_LIMIT, PRIORITY_LIMIT),
            range_check(
                "channel", "connect_timeout_seconds", CONNECT_TIMEOUT_MIN_SECONDS, CONNECT_TIMEOUT_MAX_SECONDS
            ),
            range_check("channel", "non_stream_timeout_seconds", 0, DAY_SECONDS),
        )

    def __str__(self) -> str:
        return self.name
