"""Runtime flags: the table, reading of values, and who wins: pinned, console, environment, default."""

import pytest

from channels_admin.checks import flags_in_environment_check, pinned_flags_check, sealing_keys_check
from channels_admin.flags import (
    FLAGS,
    FlagError,
    FlagSource,
    flag_named,
    flag_state,
    flag_values,
    relay_flags,
)
from relay.core.types import RelayFlags

DEFAULTS = {
    "IMAGES_FAILOVER_ENABLED": False,
    "IMAGES_FAILOVER_INCLUDE_AMBIGUOUS": False,
    "IMAGES_FAILOVER_INCLUDE_UNCERTAIN": False,
    "IMAGE_CONCURRENCY_ENABLED": False,
    "IMAGE_CONCURRENCY_MAX_CONCURRENT_REQUESTS": 0,
    "IMAGE_CONCURRENCY_OVERFLOW_MODE": "reject",
    "IMAGE_CONCURRENCY_WAIT_TIMEOUT_SECONDS": 30,
    "IMAGE_CONCURRENCY_MAX_WAITING_REQUESTS": 100,
    "IMAGE_CONCURRENCY_SCOPE": "process",
    "IMAGE_MODEL_PATTERNS": ("gpt-image*", "chatgpt-image*", "dall-e*"),
    "OUTBOUND_HEADER_TIMEOUT_SECONDS": 60,
    "OUTBOUND_IMAGE_HEADER_TIMEOUT_SECONDS": 300,
    "NON_STREAM_TIMEOUT_SECONDS": 300,
    "CHANNEL_RETRY_TIMES": 1,
    "RETRY_TIMES": 2,
    "RETRY_BUDGET_SECONDS": 300,
    "HEALTH_FAILURE_THRESHOLD": 5,
    "HEDGE_MAX_SHARE": 0.1,
    "HEDGE_MAX_RUNNING": 50,
    "IDEMPOTENT_ANSWERS": False,
    "ALLOW_UNPRICED_MODELS": False,
    "MAX_ACTIVE_STREAMS": 0,
    "RETENTION_DAYS": 90,
}


def test_the_table_holds_exactly_these_flags_with_these_defaults():
    assert {name: flag.default for name, flag in FLAGS.items()} == DEFAULTS


@pytest.mark.parametrize("flag", FLAGS.values(), ids=list(FLAGS))
def test_each_default_is_a_value_the_flag_takes(flag):
    assert flag.parse(flag.default) == flag.default
    assert type(flag.parse(flag.default)) is type(flag.default)
    assert flag.meaning.endswith(".")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("IMAGES_FAILOVER_ENABLED", "true", True),
        ("IMAGES_FAILOVER_ENABLED", " ON ", True),
        ("IMAGES_FAILOVER_ENABLED", "0", False),
        ("IMAGES_FAILOVER_ENABLED", False, False),
        ("RETRY_TIMES", "5", 5),
        ("RETRY_TIMES", 0, 0),
        ("RETRY_BUDGET_SECONDS", "1.5", 1.5),
        ("HEDGE_MAX_SHARE", "0.25", 0.25),
        ("IMAGE_CONCURRENCY_OVERFLOW_MODE", "wait", "wait"),
        ("IMAGE_MODEL_PATTERNS", "a-*, b", ("a-*", "b")),
        ("IMAGE_MODEL_PATTERNS", ["a-*", "b"], ("a-*", "b")),
    ],
)
def test_values_are_read_from_text_and_from_json(name, text, value):
    assert flag_named(name).parse(text) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("IMAGES_FAILOVER_ENABLED", "maybe"),
        ("IMAGES_FAILOVER_ENABLED", 1),
        ("RETRY_TIMES", "-1"),
        ("RETRY_TIMES", "many"),
        ("RETRY_TIMES", True),
        ("RETRY_TIMES", 1.5),
        ("RETRY_BUDGET_SECONDS", "nan"),
        ("RETRY_BUDGET_SECONDS", "inf"),
        ("OUTBOUND_HEADER_TIMEOUT_SECONDS", 0),
        ("HEDGE_MAX_SHARE", 1.1),
        ("HEALTH_FAILURE_THRESHOLD", 0),
        ("RETENTION_DAYS", 0),
        ("IMAGE_CONCURRENCY_SCOPE", "planet"),
        ("IMAGE_MODEL_PATTERNS", ["two words"]),
        ("IMAGE_MODEL_PATTERNS", [7]),
    ],
)
def test_bad_values_are_refused_and_the_flag_is_named(name, value):
    with pytest.raises(FlagError, match=f"^{name}: "):
        flag_named(name).parse(value)


def test_an_unknown_flag_is_told():
    with pytest.raises(FlagError, match="NO_SUCH_FLAG"):
        flag_named("NO_SUCH_FLAG")


@pytest.mark.parametrize(
    ("pinned", "stored", "environment", "winner"),
    [
        (False, None, None, (2, FlagSource.DEFAULT)),
        (False, None, "  ", (2, FlagSource.DEFAULT)),
        (False, None, "7", (7, FlagSource.ENVIRONMENT)),
        (False, 9, "7", (9, FlagSource.CONSOLE)),
        (False, 0, "7", (0, FlagSource.CONSOLE)),
        (False, 9, None, (9, FlagSource.CONSOLE)),
        (True, 9, "7", (7, FlagSource.ENVIRONMENT)),
        (True, 9, None, (2, FlagSource.DEFAULT)),
    ],
)
def test_pinned_beats_console_beats_environment_beats_default(settings, pinned, stored, environment, winner):
    settings.PINNED_FLAGS = ("RETRY_TIMES",) if pinned else ()
    environ = {} if environment is None else {"RETRY_TIMES": environment}
    state = flag_state(FLAGS["RETRY_TIMES"], stored, environ=environ)
    assert (state.value, state.source) == winner
    assert state.is_pinned == pinned


def test_a_saved_value_this_version_does_not_take_is_ignored_and_logged(caplog):
    state = flag_state(FLAGS["RETRY_TIMES"], "from the future", environ={"RETRY_TIMES": "4"})
    assert (state.value, state.source, state.stored) == (4, FlagSource.ENVIRONMENT, None)
    assert "RETRY_TIMES" in caplog.text


def test_relay_flags_of_the_defaults_are_the_types_defaults():
    assert relay_flags(flag_values({})) == RelayFlags()


def test_relay_flags_take_every_saved_value():
    stored = {
        "OUTBOUND_HEADER_TIMEOUT_SECONDS": 1,
        "OUTBOUND_IMAGE_HEADER_TIMEOUT_SECONDS": 2,
        "NON_STREAM_TIMEOUT_SECONDS": 3,
        "CHANNEL_RETRY_TIMES": 4,
        "RETRY_TIMES": 5,
        "RETRY_BUDGET_SECONDS": 6,
    }
    assert relay_flags(flag_values(stored)) == RelayFlags(
        header_timeout_s=1,
        image_header_timeout_s=2,
        non_stream_timeout_s=3,
        channel_retry_times=4,
        retry_times=5,
        retry_budget_s=6,
    )


def test_check_names_each_unparsable_environment_value(monkeypatch):
    assert flags_in_environment_check() == []
    monkeypatch.setenv("RETRY_TIMES", "lots")
    monkeypatch.setenv("IDEMPOTENT_ANSWERS", "perhaps")
    found = flags_in_environment_check()
    assert [error.id for error in found] == ["channels_admin.E001"] * 2
    assert {error.msg.split(":")[0] for error in found} == {"RETRY_TIMES", "IDEMPOTENT_ANSWERS"}


def test_an_unparsable_environment_value_raises_where_it_is_used(monkeypatch):
    monkeypatch.setenv("RETRY_TIMES", "lots")
    with pytest.raises(FlagError, match="RETRY_TIMES"):
        flag_values({})


def test_check_names_pinned_words_that_are_no_flags(settings):
    settings.PINNED_FLAGS = ("RETRY_TIMES", "RETRY_TIME")
    assert [(error.id, "RETRY_TIME," in error.msg) for error in pinned_flags_check()] == [
        ("channels_admin.E002", True)
    ]


def test_check_tells_unusable_sealing_keys(settings):
    assert sealing_keys_check() == []
    settings.SEALING_KEYS = ("id:short",)
    assert [error.id for error in sealing_keys_check()] == ["channels_admin.E003"]
