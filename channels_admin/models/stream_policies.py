"""Stream policies: named sets of stream timers, given to channels; at most one is the default."""

from django.core.validators import MaxValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from channels_admin.models.base import (
    DAY_SECONDS,
    VersionedModel,
    choice_check,
    choices,
    filled_check,
    range_check,
    seconds,
)
from channels_admin.validators import validate_visible_name
from relay.core.types import DisconnectPolicy, StreamMode

PREAMBLE_HOLD_MAX_MS = 3000
_MODE_LABELS = {StreamMode.AS_ASKED.value: "as the client asks"}
_TIMERS = (
    "header_timeout_seconds",
    "first_event_timeout_seconds",
    "event_idle_timeout_seconds",
    "total_timeout_seconds",
)
# A stream without an idle timer could hang for ever.
_IDLE_TIMERS = ("idle_timeout_seconds", "image_idle_timeout_seconds")


class StreamPolicy(VersionedModel):
    name = models.CharField(_("name"), max_length=100, unique=True, validators=[validate_visible_name])
    is_default = models.BooleanField(
        _("default"), default=False, help_text=_("Used by every channel that names no policy.")
    )
    stream_policy = models.CharField(
        _("stream mode"),
        max_length=20,
        blank=True,
        default=StreamMode.AS_ASKED.value,
        choices=choices(StreamMode, labels=_MODE_LABELS),
        help_text=_("What the upstream is asked for, whatever the client asked."),
    )
    header_timeout_seconds = models.FloatField(
        _("header timeout (s)"),
        validators=seconds(),
        default=0,
        help_text=_("0: the flag OUTBOUND_HEADER_TIMEOUT_SECONDS."),
    )
    first_event_timeout_seconds = models.FloatField(
        _("first-event timeout (s)"),
        validators=seconds(),
        default=600,
        help_text=_("Headers to the first valid event. 0: off."),
    )
    idle_timeout_seconds = models.FloatField(
        _("idle timeout (s)"),
        validators=seconds(1),
        default=300,
        help_text=_("One upstream byte to the next."),
    )
    image_idle_timeout_seconds = models.FloatField(
        _("image idle timeout (s)"),
        validators=seconds(1),
        default=900,
        help_text=_("The same for image requests."),
    )
    event_idle_timeout_seconds = models.FloatField(
        _("event idle timeout (s)"),
        validators=seconds(),
        default=900,
        help_text=_("One valid event to the next. 0: off."),
    )
    total_timeout_seconds = models.FloatField(
        _("total timeout (s)"), validators=seconds(), default=14_400, help_text=_("The whole stream. 0: off.")
    )
    early_commit_seconds = models.FloatField(
        _("early commit (s)"),
        validators=seconds(),
        null=True,
        blank=True,
        default=None,
        help_text=_("Answer 200 after this time and keep the client waiting. 0: off. Empty: automatic."),
    )
    preamble_hold_ms = models.PositiveIntegerField(
        _("preamble hold (ms)"),
        default=1000,
        validators=[MaxValueValidator(PREAMBLE_HOLD_MAX_MS)],
        help_text=_("How long opening events may be held so that an error behind them can fail over."),
    )
    tool_call_guard = models.BooleanField(
        _("tool-call guard"), default=False, help_text=_("Check tool calls before the client sees them.")
    )
    disconnect_policy = models.CharField(
        _("when the client leaves"),
        max_length=16,
        choices=choices(DisconnectPolicy),
        default=DisconnectPolicy.CANCEL.value,
    )

    class Meta:
        verbose_name = _("stream policy")
        verbose_name_plural = _("stream policies")
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(
                fields=["is_default"],
                condition=models.Q(is_default=True),
                name="stream_policy_single_default",
                violation_error_message=_("Another stream policy is the default."),
            ),
            filled_check("stream_policy", "name"),
            choice_check("stream_policy", "stream_policy", StreamMode),
            choice_check("stream_policy", "disconnect_policy", DisconnectPolicy),
            range_check("stream_policy", "preamble_hold_ms", 0, PREAMBLE_HOLD_MAX_MS),
            range_check("stream_policy", "early_commit_seconds", 0, DAY_SECONDS, nullable=True),
            *(range_check("stream_policy", field, 0, DAY_SECONDS) for field in _TIMERS),
            *(range_check("stream_policy", field, 1, DAY_SECONDS) for field in _IDLE_TIMERS),
        )

    def __str__(self) -> str:
        return self.name
