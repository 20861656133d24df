"""Services: what they refuse and at which field, what they stamp, and that the version goes up by one."""

import datetime
from ipaddress import ip_network

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from channels_admin import services
from channels_admin.crypto import api_key_digest, sealer
from channels_admin.models import ApiKey, Channel, RuntimeFlag, StreamPolicy, Tenant, UpstreamKey
from channels_admin.selectors import config_version
from channels_admin.statuses import AccessStatus, RouteStatus
from tests.factories.channels import a_channel, a_policy, a_tenant, an_api_key, an_upstream_key

pytestmark = pytest.mark.django_db

CHANNEL = {"name": "a", "base_url": "https://upstream.example.com", "models": ["gpt-*"]}


def test_every_service_takes_exactly_one_version_and_stamps_its_row():
    tenant, channel, policy = a_tenant(), a_channel(), a_policy()
    api_key, _ = an_api_key(tenant)
    key = an_upstream_key(channel)
    calls = [
        lambda: services.tenant_create(name="new tenant"),
        lambda: services.tenant_update(tenant_id=tenant.pk, group="gold"),
        lambda: services.tenant_set_status(tenant_id=tenant.pk, status=AccessStatus.CLOSED),
        lambda: services.api_key_issue(tenant_id=tenant.pk, name="new key")[0],
        lambda: services.api_key_update(api_key_id=api_key.pk, name="renamed"),
        lambda: services.api_key_close(api_key_id=api_key.pk),
        lambda: services.channel_create(**CHANNEL),
        lambda: services.channel_update(channel_id=channel.pk, weight=5),
        lambda: services.channel_set_status(channel_id=channel.pk, status=RouteStatus.DISABLED),
        lambda: services.upstream_key_add(channel_id=channel.pk, plain="sk-another-0123456789"),
        lambda: services.upstream_key_set_status(upstream_key_id=key.pk, status=RouteStatus.CLOSED),
        lambda: services.stream_policy_create(name="new policy"),
        lambda: services.stream_policy_update(policy_id=policy.pk, tool_call_guard=True),
        lambda: services.runtime_flag_set(name="RETRY_TIMES", value=3),
        lambda: services.runtime_flag_clear(name="RETRY_TIMES"),
    ]
    for call in calls:
        before = config_version()
        row = call()
        row.refresh_from_db()
        assert (row.version, config_version()) == (before + 1, before + 1)


def test_a_refused_change_leaves_the_version_and_the_row_alone():
    channel = a_channel()
    before = config_version()
    with pytest.raises(ValidationError):
        services.channel_update(channel_id=channel.pk, weight=0)
    channel.refresh_from_db()
    assert (config_version(), channel.weight) == (before, 1)


@pytest.mark.django_db(transaction=True)
def test_the_version_cannot_be_taken_outside_a_transaction():
    with pytest.raises(RuntimeError):
        services.config_version_bump()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", " padded "),
        ("name", "tab\tinside"),
        ("kind", "telepathy"),
        ("base_url", "ftp://upstream.example.com"),
        ("base_url", "http://10.0.0.1"),
        ("base_url", "https://user:password@upstream.example.com"),
        ("base_url", "https://upstream.example.com/?key=1"),
        ("models", []),
        ("models", "gpt-*"),
        ("models", ["gpt 4"]),
        ("models", ["a", "a"]),
        ("models", [""]),
        ("models", ["gpt-**"]),
        ("models", [4]),
        ("model_mapping", ["a"]),
        ("model_mapping", []),
        ("model_mapping", None),
        ("header_overrides", ""),
        ("tags", {}),
        ("model_mapping", {"a": 4}),
        ("model_mapping", {"a*": "b"}),
        ("model_mapping", {"a": "b*"}),
        ("model_mapping", {"": "b"}),
        ("groups", []),
        ("groups", ["two words"]),
        ("tags", ["\x00"]),
        ("priority", 2_000_000),
        ("weight", 0),
        ("key_mode", "best"),
        ("connect_timeout_seconds", 0),
        ("connect_timeout_seconds", 500),
        ("non_stream_timeout_seconds", -1),
        ("header_overrides", {"Connection": "close"}),
        ("header_overrides", {"transfer-encoding": "chunked"}),
        ("header_overrides", {"Content-Length": "0"}),
        ("header_overrides", {"Host": "evil.example.com"}),
        ("header_overrides", {"Authorization": "Bearer x"}),
        ("header_overrides", {"X-Api-Key": "x"}),
        ("header_overrides", {"bad name": "x"}),
        ("header_overrides", {"x-good": "line\r\nx-injected: 1"}),
        ("header_overrides", {"x-good": 4}),
        ("header_overrides", ["x-good"]),
        ("parameter_overrides", {"stream": True}),
        ("parameter_overrides", ["temperature"]),
        ("proxy_url", "socks5://127.0.0.1:1080"),
        ("proxy_url", "http://user:password@proxy.example.com:3128"),
        ("proxy_url", "http://proxy.example.com:99999"),
        ("proxy_url", "proxy"),
    ],
)
def test_a_bad_channel_field_is_told_at_that_field(settings, field, value):
    settings.UPSTREAM_ALLOWED_PRIVATE_NETS = ()
    with pytest.raises(ValidationError) as error:
        services.channel_create(**{**CHANNEL, field: value})
    assert list(error.value.message_dict) == [field]
    assert not Channel.objects.exists()


def test_a_full_channel_is_kept_as_given():
    fields = {
        "name": "渠道 one",
        "kind": "openai",
        "base_url": "https://upstream.example.com/v1/",
        "proxy_url": "http://proxy.example.com:3128",
        "models": ["gpt-*", "*"],
        "model_mapping": {"gpt-4o": "my-deployment"},
        "priority": -3,
        "weight": 7,
        "groups": ["default", "gold"],
        "tags": ["eu west"],
        "policy": a_policy(),
        "key_mode": "random",
        "connect_timeout_seconds": 2.5,
        "non_stream_timeout_seconds": 600,
        "request_stream_usage": False,
        "header_overrides": {"X-Title": "Sluice"},
        "parameter_overrides": {"temperature": 0.5, "metadata": {"a": [1]}},
    }
    channel = Channel.objects.get(pk=services.channel_create(**fields).pk)
    assert {name: getattr(channel, name) for name in fields} == {
        **fields,
        "base_url": "https://upstream.example.com",
    }


def test_private_addresses_need_a_setting(settings):
    settings.UPSTREAM_ALLOWED_PRIVATE_NETS = ()
    with pytest.raises(ValidationError):
        services.channel_create(**{**CHANNEL, "base_url": "http://127.0.0.1:9000"})


def test_a_channel_whose_url_is_no_longer_allowed_can_still_be_switched_off(settings):
    settings.UPSTREAM_ALLOWED_PRIVATE_NETS = (ip_network("10.0.0.0/8"),)
    channel = a_channel(base_url="http://10.0.0.1")
    settings.UPSTREAM_ALLOWED_PRIVATE_NETS = ()
    services.channel_set_status(channel_id=channel.pk, status=RouteStatus.DISABLED)
    channel.refresh_from_db()
    assert channel.status == RouteStatus.DISABLED
    with pytest.raises(ValidationError):
        services.channel_update(channel_id=channel.pk, weight=2)


def test_a_reason_beyond_its_column_is_refused():
    with pytest.raises(ValidationError) as error:
        services.channel_set_status(channel_id=a_channel().pk, status=RouteStatus.DISABLED, reason="x" * 201)
    assert list(error.value.message_dict) == ["status_reason"]


def test_channel_status_carries_reason_and_time():
    channel = a_channel()
    before = timezone.now()
    channel = services.channel_set_status(
        channel_id=channel.pk, status=RouteStatus.AUTO_DISABLED, reason="5 failures in a row"
    )
    channel.refresh_from_db()
    assert (channel.status, channel.status_reason) == ("auto_disabled", "5 failures in a row")
    assert channel.status_changed_at >= before


def test_an_issued_key_is_kept_as_a_digest_only():
    api_key, plain = an_api_key(allowed_networks=["10.0.0.0/8", "::1"], allowed_models=["gpt-*"])
    stored = ApiKey.objects.values().get(pk=api_key.pk)
    assert stored["digest"] == api_key_digest(plain)
    assert stored["prefix"] == plain[:9]
    assert plain not in str(stored)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("allowed_networks", ["10.0.0.1/8"]),
        ("allowed_networks", ["everywhere"]),
        ("allowed_networks", "10.0.0.0/8"),
        ("allowed_models", ["two words"]),
    ],
)
def test_a_bad_api_key_field_is_told_at_that_field(field, value):
    with pytest.raises(ValidationError) as error:
        an_api_key(**{field: value})
    assert list(error.value.message_dict) == [field]


def test_closing_an_api_key_twice_changes_nothing_the_second_time():
    api_key, _ = an_api_key()
    first = services.api_key_close(api_key_id=api_key.pk)
    assert services.api_key_close(api_key_id=api_key.pk).version == first.version


def test_an_expiry_date_is_kept():
    until = timezone.now() + datetime.timedelta(days=1)
    api_key, _ = an_api_key(expires_at=until)
    assert ApiKey.objects.get(pk=api_key.pk).expires_at == until


def test_names_are_unique_and_that_is_told():
    a_tenant(name="acme")
    with pytest.raises(ValidationError) as error:
        a_tenant(name="acme")
    assert list(error.value.message_dict) == ["name"]


def test_upstream_keys_are_sealed_labelled_and_found_again():
    channel = a_channel(keys=0)
    key = an_upstream_key(channel, "sk-upstream-0123456789abcdef")
    assert key.label == "sk-u…cdef"
    assert sealer().unseal(key.sealed) == "sk-upstream-0123456789abcdef"
    assert an_upstream_key(channel, "sk-upstream-0123456789abcdef").pk == key.pk


def test_many_pasted_keys_are_added_once_each_and_closed_ones_come_back():
    channel = a_channel(keys=0)
    first = an_upstream_key(channel, "sk-first-0123456789")
    closed = an_upstream_key(channel, "sk-second-0123456789")
    services.upstream_key_set_status(upstream_key_id=closed.pk, status=RouteStatus.CLOSED)
    result = services.upstream_keys_add(
        channel_id=channel.pk,
        plains=["sk-first-0123456789", "sk-second-0123456789", "sk-third-0123456789", "sk-third-0123456789"],
    )
    assert [key.pk for key in result.present] == [first.pk]
    assert result.added[0].pk == closed.pk
    assert set(UpstreamKey.objects.values_list("status", flat=True)) == {"enabled"}
    assert UpstreamKey.objects.count() == 3


@pytest.mark.parametrize("plain", ["", "two words", "line\nbreak", "schlüssel-0123456789", "x" * 5000])
def test_an_unusable_upstream_key_is_refused_and_never_repeated(plain):
    channel = a_channel(keys=0)
    with pytest.raises(ValidationError) as error:
        services.upstream_keys_add(channel_id=channel.pk, plains=["sk-good-0123456789", plain])
    assert not plain or plain not in str(error.value)
    assert not UpstreamKey.objects.exists()


def test_reseal_moves_everything_to_the_newest_sealing_key(settings):
    settings.SEALING_KEYS = ("old:a sealing key of the past",)
    channel = a_channel(keys=0)
    key = an_upstream_key(channel, "sk-upstream-0123456789")
    settings.SEALING_KEYS = ("new:a sealing key of today", "old:a sealing key of the past")
    assert an_upstream_key(channel, "sk-upstream-0123456789").pk == key.pk
    assert services.upstream_keys_reseal() == 1
    assert services.upstream_keys_reseal() == 0
    settings.SEALING_KEYS = ("new:a sealing key of today",)
    key.refresh_from_db()
    assert sealer().unseal(key.sealed) == "sk-upstream-0123456789"
    assert an_upstream_key(channel, "sk-upstream-0123456789").pk == key.pk


def test_a_new_default_policy_takes_that_from_the_old_one():
    first = a_policy(is_default=True)
    second = a_policy(is_default=True)
    assert list(StreamPolicy.objects.filter(is_default=True)) == [second]
    first.refresh_from_db()
    assert first.version == second.version


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("preamble_hold_ms", 3001),
        ("idle_timeout_seconds", 0),
        ("total_timeout_seconds", -1),
        ("stream_policy", "sometimes"),
        ("disconnect_policy", "ignore"),
        ("early_commit_seconds", -1),
        ("header_timeout_seconds", float("nan")),
    ],
)
def test_a_bad_policy_field_is_told_at_that_field(field, value):
    with pytest.raises(ValidationError) as error:
        a_policy(**{field: value})
    assert list(error.value.message_dict) == [field]


def test_a_flag_is_saved_with_who_and_when_and_cleared_by_null():
    row = services.runtime_flag_set(name="IMAGE_MODEL_PATTERNS", value="a-*, b", changed_by="ada")
    assert (row.value, row.changed_by) == (["a-*", "b"], "ada")
    assert row.changed_at is not None
    assert services.runtime_flag_clear(name="IMAGE_MODEL_PATTERNS").value is None


@pytest.mark.parametrize(
    ("name", "value"), [("NO_SUCH_FLAG", 1), ("RETRY_TIMES", "many"), ("RETRY_TIMES", -1)]
)
def test_a_bad_flag_is_refused(name, value):
    with pytest.raises(ValidationError, match=name):
        services.runtime_flag_set(name=name, value=value)
    assert not RuntimeFlag.objects.exclude(value=None).exists()


def test_a_pinned_flag_cannot_be_saved_or_cleared(settings):
    settings.PINNED_FLAGS = ("RETRY_TIMES",)
    with pytest.raises(ValidationError, match="environment"):
        services.runtime_flag_set(name="RETRY_TIMES", value=3)
    with pytest.raises(ValidationError, match="environment"):
        services.runtime_flag_clear(name="RETRY_TIMES")


def test_switching_image_failover_off_stores_an_explicit_false_for_all_three():
    services.runtime_flags_set(
        values={"IMAGES_FAILOVER_ENABLED": True, "IMAGES_FAILOVER_INCLUDE_AMBIGUOUS": True}
    )
    services.runtime_flag_set(name="IMAGES_FAILOVER_ENABLED", value=False)
    saved = RuntimeFlag.objects.filter(name__startswith="IMAGES_FAILOVER").values_list("value", flat=True)
    assert list(saved) == [False, False, False]


def test_switching_image_failover_off_leaves_a_pinned_range_alone(settings):
    settings.PINNED_FLAGS = ("IMAGES_FAILOVER_INCLUDE_UNCERTAIN",)
    services.runtime_flag_set(name="IMAGES_FAILOVER_ENABLED", value=False)
    assert RuntimeFlag.objects.get(name="IMAGES_FAILOVER_INCLUDE_UNCERTAIN").value is None


def test_several_flags_are_saved_all_or_none():
    with pytest.raises(ValidationError):
        services.runtime_flags_set(values={"RETRY_TIMES": 3, "CHANNEL_RETRY_TIMES": -1})
    assert not RuntimeFlag.objects.exclude(value=None).exists()


def test_a_service_inside_a_larger_transaction_is_rolled_back_with_it():
    before = config_version()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        a_tenant(name="gone")
        raise ZeroDivisionError
    assert config_version() == before
    assert not Tenant.objects.filter(name="gone").exists()
