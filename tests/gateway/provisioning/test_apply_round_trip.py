"""Each field of a file arrives in its row; a change is told; a second run finds nothing to do."""

import datetime
from decimal import Decimal

import pytest
import yaml

from billing.core.prices import PriceParts
from billing.models import Account, CostPrice, GroupMultiplier, LedgerEntry, Price
from channels_admin import services
from channels_admin.crypto import api_key_digest, sealer
from channels_admin.models import ApiKey, Channel, RuntimeFlag, StreamPolicy, Tenant, UpstreamKey
from channels_admin.selectors import caller_by_digest, config_version
from channels_admin.statuses import RouteStatus
from gateway.provisioning.findings import Verb
from tests.gateway.provisioning.samples import API_KEY_CANARY, FULL, UPSTREAM_CANARY

POLICY_FIELDS = [
    ("is_default", True),
    ("stream_policy", "force_stream"),
    ("stream_policy", "force_non_stream"),
    ("header_timeout_seconds", 7.5),
    ("first_event_timeout_seconds", 0),
    ("idle_timeout_seconds", 1),
    ("image_idle_timeout_seconds", 2),
    ("event_idle_timeout_seconds", 3),
    ("total_timeout_seconds", 86_400),
    ("early_commit_seconds", 15),
    ("preamble_hold_ms", 3000),
    ("tool_call_guard", True),
    ("disconnect_policy", "drain"),
]
CHANNEL_FIELDS = [
    ("proxy_url", "http://proxy.example.com:3128"),
    ("models", ["gpt-4o", "claude-*"]),
    ("model_mapping", {"gpt-4o": "gpt-4o-2024"}),
    ("priority", -3),
    ("weight", 9),
    ("groups", ["default", "vip"]),
    ("tags", ["eu"]),
    ("key_mode", "random"),
    ("connect_timeout_seconds", 2.5),
    ("non_stream_timeout_seconds", 600),
    ("request_stream_usage", False),
    ("header_overrides", {"X-Team": "blue"}),
    ("parameter_overrides", {"temperature": 0}),
]
PRICE_PARTS = [
    "input", "cached_input", "cache_write_5m", "cache_write_1h", "output", "reasoning",
    "audio_input", "audio_output", "image_input", "image_output", "per_call",
    "per_image", "per_audio_second", "per_character",
]  # fmt: skip


def verbs(report):
    return {change.what: change.verb for change in report.changes}


def details(report, what):
    return next(change.details for change in report.changes if change.what == what)


def test_a_whole_file_arrives(apply):
    before = config_version()
    report = apply(FULL)
    assert config_version() == before + 1
    assert dict(RuntimeFlag.objects.exclude(value=None).values_list("name", "value")) == {
        "IMAGES_FAILOVER_ENABLED": False,
        "IMAGES_FAILOVER_INCLUDE_AMBIGUOUS": False,
        "IMAGES_FAILOVER_INCLUDE_UNCERTAIN": False,
        "RETRY_TIMES": 3,
    }
    channel = Channel.objects.get(name="main")
    assert (channel.base_url, channel.priority, channel.policy.name) == (
        "http://127.0.0.1:4030",
        10,
        "patient",
    )
    assert sealer().unseal(UpstreamKey.objects.get(channel=channel).sealed) == UPSTREAM_CANARY
    assert Price.objects.get(model="*").cached_input == Decimal("0.5")
    assert Account.objects.get(tenant__name="demo").balance_nano == 10_000_000_000
    assert caller_by_digest(api_key_digest(API_KEY_CANARY)).caller.tenant_name == "demo"
    (made,) = report.new_api_keys
    assert (made.tenant, made.name) == ("demo", "second")
    assert caller_by_digest(api_key_digest(made.plain)).caller.tenant_name == "demo"


def test_a_second_run_changes_nothing_and_takes_no_version(apply):
    apply(FULL)
    before = (config_version(), list(UpstreamKey.objects.values()), list(LedgerEntry.objects.values()))
    report = apply(FULL)
    assert not report.has_changes
    assert set(verbs(report).values()) == {Verb.UNCHANGED}
    assert report.new_api_keys == ()
    assert report.warnings == ()
    after = (config_version(), list(UpstreamKey.objects.values()), list(LedgerEntry.objects.values()))
    assert after == before


@pytest.mark.parametrize(("field", "value"), POLICY_FIELDS)
def test_each_policy_field(apply, field, value):
    apply("stream_policies: [{name: p}]")
    text = yaml.safe_dump({"stream_policies": [{"name": "p", field: value}]})
    report = apply(text)
    assert getattr(StreamPolicy.objects.get(name="p"), field) == value
    assert verbs(report) == {"stream policy p": Verb.CHANGE}
    assert len(details(report, "stream policy p")) == 1
    assert not apply(text).has_changes


@pytest.mark.parametrize(("field", "value"), CHANNEL_FIELDS)
def test_each_channel_field(apply, field, value):
    apply('channels: [{name: c, base_url: "https://api.example.com", models: [x], keys: [sk-123456]}]')
    text = yaml.safe_dump({"channels": [{"name": "c", field: value}]})
    report = apply(text)
    assert getattr(Channel.objects.get(name="c"), field) == value
    assert verbs(report) == {"channel c": Verb.CHANGE}
    assert not apply(text).has_changes


@pytest.mark.parametrize("part", PRICE_PARTS)
def test_each_price_part(apply, part):
    apply("prices: [{model: m, input: 1}]")
    text = f"prices: [{{model: m, {part}: 3.25}}]"
    report = apply(text)
    row = Price.objects.get(model="m", is_closed=False)
    assert getattr(row, part) == Decimal("3.25")
    assert verbs(report) == {"price m": Verb.CHANGE}
    if part != "input":
        assert row.input == 1, "what the file does not name stays"
    assert not apply(text).has_changes


def test_every_part_of_a_price_can_be_given():
    assert set(PriceParts.__dataclass_fields__) == set(PRICE_PARTS)


def test_a_price_part_is_taken_back_by_null(apply):
    apply("prices: [{model: m, input: 1, output: 2}]")
    report = apply("prices: [{model: m, output: null}]")
    assert Price.objects.get(model="m", is_closed=False).output is None
    assert details(report, "price m") == ("output 2 → null",)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-02-01", datetime.datetime(2026, 2, 1, tzinfo=datetime.UTC)),
        ("2026-02-01T12:00:00Z", datetime.datetime(2026, 2, 1, 12, tzinfo=datetime.UTC)),
        ('"2026-02-01T12:00:00+02:00"', datetime.datetime(2026, 2, 1, 10, tzinfo=datetime.UTC)),
    ],
)
def test_prices_are_known_by_model_group_and_start(apply, written, meant):
    text = f"prices: [{{model: m, input: 1}}, {{model: m, group: vip, input: 2}}, {{model: m, effective_from: {written}, input: 3}}]"
    assert list(verbs(apply(text)).values()) == [Verb.CREATE] * 3
    assert Price.objects.get(effective_from=meant).input == 3
    assert not apply(text).has_changes


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/", "///"])
def test_base_url_is_kept_in_one_form(apply, tail):
    text = (
        f'channels: [{{name: c, base_url: "https://api.example.com{tail}", models: [x], keys: [sk-123456]}}]'
    )
    apply(text)
    assert Channel.objects.get(name="c").base_url == "https://api.example.com"
    assert not apply(text).has_changes
    assert not apply('channels: [{name: c, base_url: "https://api.example.com/v1"}]').has_changes


def test_what_is_missing_is_untouched(apply):
    apply(FULL)
    services.channel_update(channel_id=Channel.objects.get().pk, weight=77)
    before = config_version()
    assert not apply("channels: [{name: main}]\ntenants: [{name: demo}]\nflags: {}").has_changes
    assert (config_version(), Channel.objects.get().weight) == (before, 77)
    assert UpstreamKey.objects.count() == 1


def test_policy_null_means_the_default_one(apply):
    apply(FULL)
    report = apply("channels: [{name: main, policy: null}]")
    assert Channel.objects.get().policy is None
    assert details(report, "channel main") == ("policy patient → null",)


def test_a_new_policy_can_be_named_by_a_channel_of_the_same_file(apply):
    apply(
        "channels: [{name: c, base_url: 'https://a.example.com', models: [x], keys: [sk-123456], policy: later}]\n"
        "stream_policies: [{name: later}]"
    )
    assert Channel.objects.get().policy.name == "later"


def test_a_default_policy_takes_that_from_the_other(apply):
    apply("stream_policies: [{name: a, is_default: true}, {name: b}]")
    apply("stream_policies: [{name: b, is_default: true}]")
    assert list(StreamPolicy.objects.filter(is_default=True).values_list("name", flat=True)) == ["b"]


@pytest.mark.parametrize("status", ["disabled", "closed"])
def test_channel_status(apply, status):
    apply(FULL)
    report = apply(f"channels: [{{name: main, status: {status}}}]")
    assert Channel.objects.get().status == status
    assert details(report, "channel main") == (f"status enabled → {status}",)
    assert any("serves nothing" in warning for warning in report.warnings)
    apply("channels: [{name: main, status: enabled}]")
    assert Channel.objects.get().status == "enabled"


def test_upstream_keys_are_known_by_fingerprint_and_others_stay(apply):
    apply(FULL)
    report = apply(
        "channels: [{name: main, keys: [sk-another-key-1234, '${UPSTREAM_KEY}', sk-another-key-1234]}]"
    )
    assert details(report, "channel main") == ("upstream key sk-…234 added",)
    assert UpstreamKey.objects.filter(status="enabled").count() == 2
    assert not apply(FULL).has_changes


def test_a_key_disabled_by_hand_stays_disabled_and_a_closed_one_comes_back(apply):
    apply(FULL)
    key = UpstreamKey.objects.get()
    services.upstream_key_set_status(upstream_key_id=key.pk, status=RouteStatus.DISABLED)
    report = apply(FULL)
    assert not report.has_changes
    assert any("no enabled upstream key" in warning for warning in report.warnings)
    services.upstream_key_set_status(upstream_key_id=key.pk, status=RouteStatus.CLOSED)
    assert apply(FULL).has_changes
    assert UpstreamKey.objects.get().status == "enabled"


def test_flags_take_every_kind_of_value_and_null_clears(apply):
    apply(
        "flags: {IMAGE_MODEL_PATTERNS: [a, b*], IMAGE_CONCURRENCY_OVERFLOW_MODE: wait, HEDGE_MAX_SHARE: 0.5}"
    )
    assert RuntimeFlag.objects.get(name="IMAGE_MODEL_PATTERNS").value == ["a", "b*"]
    assert RuntimeFlag.objects.get(name="IMAGE_CONCURRENCY_OVERFLOW_MODE").changed_by == "manage.py apply"
    report = apply("flags: {HEDGE_MAX_SHARE: null}")
    assert RuntimeFlag.objects.get(name="HEDGE_MAX_SHARE").value is None
    assert details(report, "flag HEDGE_MAX_SHARE") == ("value 0.5 → null",)
    assert not apply("flags: {HEDGE_MAX_SHARE: null, IMAGE_MODEL_PATTERNS: 'a, b*'}").has_changes


def test_switching_failover_off_tells_what_else_goes_off(apply):
    apply("flags: {IMAGES_FAILOVER_ENABLED: true, IMAGES_FAILOVER_INCLUDE_AMBIGUOUS: true}")
    report = apply("flags: {IMAGES_FAILOVER_ENABLED: false}")
    assert details(report, "flag IMAGES_FAILOVER_INCLUDE_AMBIGUOUS") == ("value true → false",)


def test_tenant_group_and_status(apply):
    apply("tenants: [{name: t}]")
    assert not Account.objects.exists(), "no balance was asked for"
    report = apply("tenants: [{name: t, group: vip, status: closed}]")
    row = Tenant.objects.get()
    assert (row.group, row.status) == ("vip", "closed")
    assert details(report, "tenant t") == ("group default → vip", "status active → closed")
    assert not apply("tenants: [{name: t, group: vip, status: closed}]").has_changes


def test_a_changed_opening_balance_is_a_warning_and_no_payment(apply):
    apply(FULL)
    report = apply("tenants: [{name: demo, balance_usd: 500}]")
    assert not report.has_changes
    assert "opening balance" in report.warnings[0]
    assert Account.objects.get().balance_nano == 10_000_000_000


def test_api_key_fields(apply):
    text = (
        "tenants: [{name: t, api_keys: [{name: k, key: '${TENANT_KEY}', expires_at: 2030-01-01T00:00:00Z, "
        "allowed_models: [gpt-*], allowed_networks: [10.0.0.0/8]}]}]"
    )
    apply(text)
    row = ApiKey.objects.get()
    assert row.expires_at == datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    assert (row.allowed_models, row.allowed_networks) == (["gpt-*"], ["10.0.0.0/8"])
    assert not apply(text).has_changes
    report = apply("tenants: [{name: t, api_keys: [{name: k, expires_at: null}]}]")
    assert ApiKey.objects.get().expires_at is None
    assert verbs(report)["API key k of tenant t"] is Verb.CHANGE


def test_a_null_key_is_made_once(apply):
    text = "tenants: [{name: t, api_keys: [{name: k, key: null}]}]"
    assert len(apply(text).new_api_keys) == 1
    assert apply(text).new_api_keys == ()


def test_a_closed_api_key_is_not_made_again_unless_a_new_one_is_given(apply):
    apply("tenants: [{name: t, api_keys: [{name: k}]}]")
    services.api_key_close(api_key_id=ApiKey.objects.get().pk)
    report = apply("tenants: [{name: t, api_keys: [{name: k}]}]")
    assert not report.has_changes
    assert "was closed" in report.warnings[0]
    assert apply("tenants: [{name: t, api_keys: [{name: k, key: '${TENANT_KEY}'}]}]").has_changes
    assert ApiKey.objects.filter(status="active").count() == 1


PRICED_CHANNEL = (
    'channels: [{name: c, base_url: "https://api.example.com", models: [x], keys: [sk-123456]}]\n'
)


def test_tiers_and_image_rates_of_a_price(apply):
    text = "prices: [{model: m, tiers: [{above_input_tokens: 1000, input: 2.5}], image_rates: {High: 0.5}}]"
    report = apply(text)
    row = Price.objects.get()
    assert row.tiers == [{"above_input_tokens": 1000, "input": "2.5"}]
    assert row.image_rates == {"high": "0.5"}
    assert details(report, "price m") == (
        "image_rates {high: 0.5}",
        "tiers [{above_input_tokens: 1000, input: 2.5}]",
    )
    assert not apply(text).has_changes
    assert not apply("prices: [{model: m}]").has_changes, "what the file does not name stays"
    report = apply("prices: [{model: m, tiers: []}]")
    assert Price.objects.get(is_closed=False).tiers == []
    assert Price.objects.get(is_closed=False).image_rates == {"high": "0.5"}
    assert details(report, "price m") == ("tiers [{above_input_tokens: 1000, input: 2.5}] → []",)


def test_cost_prices_are_known_by_channel_model_and_start(apply):
    text = PRICED_CHANNEL + (
        "cost_prices: [{channel: c, model: x, input: 1}, {channel: c, model: x, effective_from: 2027-01-01, input: 2},"
        " {channel: c, model: y, output: 3}]"
    )
    report = apply(text)
    assert [what for what in verbs(report) if what.startswith("cost price")] == [
        "cost price x on c",
        "cost price x on c from 2027-01-01T00:00:00+00:00",
        "cost price y on c",
    ]
    assert CostPrice.objects.filter(channel__name="c").count() == 3
    assert not apply(text).has_changes
    report = apply("cost_prices: [{channel: c, model: y, input: 4}]")
    row = CostPrice.objects.get(model="y", is_closed=False)
    assert (row.input, row.output) == (4, 3)
    assert CostPrice.objects.get(model="y", is_closed=True).effective_to is not None
    assert details(report, "cost price y on c") == ("input null → 4",)


def test_group_multipliers(apply):
    text = "group_multipliers: [{group: vip, multiplier: 0.8}, {group: vip, effective_from: 2027-01-01, multiplier: 1}]"
    assert list(verbs(apply(text)).values()) == [Verb.CREATE] * 2
    assert not apply(text).has_changes
    report = apply("group_multipliers: [{group: vip, multiplier: 0.9}]")
    assert GroupMultiplier.objects.filter(is_closed=False).count() == 2
    assert details(report, "multiplier of group vip") == ("multiplier 0.8 → 0.9",)
