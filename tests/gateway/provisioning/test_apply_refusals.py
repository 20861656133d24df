"""Bad files: every problem at once, each with file, path and reason, and nothing changed."""

import pytest

from billing.models import Price
from channels_admin import services
from channels_admin.models import ApiKey, Channel, RuntimeFlag, StreamPolicy, Tenant
from channels_admin.selectors import config_version
from gateway.provisioning import ProvisioningRefused
from tests.gateway.provisioning.samples import API_KEY_CANARY, FULL, UPSTREAM_CANARY

CHANNEL = "name: c, base_url: 'https://a.example.com', models: [x], keys: [sk-123456]"

REFUSALS = [
    ("", "the file is empty"),
    ("[1]", "a mapping with flags, stream_policies, channels, model_routes, prices, cost_prices, group_multipliers, tenants is expected"),
    ("chanels: []", "chanels: unknown field (did you mean channels?)"),
    ("channels: {}", "channels: a list is expected"),
    ("channels: [main]", "channels[0]: a mapping is expected"),
    ("channels: [{name: c, base_ulr: x}]", "channels[0].base_ulr: unknown field (did you mean base_url?)"),
    ("channels: [{models: [x]}]", "channels[0].name: is missing"),
    ("channels: [{name: c}]", "channels[0].base_url: is missing; a new channel needs it"),
    (f"channels: [{{{CHANNEL}, kind: telepathy}}]", "channels[0].kind: is none of "),
    (f"channels: [{{{CHANNEL}, weight: 0}}]", "channels[0].weight: "),
    (f"channels: [{{{CHANNEL}, priority: yes}}]", "channels[0].priority: a number is expected"),
    (f"channels: [{{{CHANNEL}, priority: 1.5}}]", "channels[0].priority: a whole number is expected"),
    (f"channels: [{{{CHANNEL}, status: auto_disabled}}]", "channels[0].status: "),
    (f"channels: [{{{CHANNEL}, key_mode: best}}]", "channels[0].key_mode: "),
    (f"channels: [{{{CHANNEL}, connect_timeout_seconds: .inf}}]", "channels[0].connect_timeout_seconds: "),
    (f"channels: [{{{CHANNEL}, non_stream_timeout_seconds: -1}}]", "channels[0].non_stream_timeout_seconds: "),
    (f"channels: [{{{CHANNEL}, policy: nosuch}}]", "channels[0].policy: no such stream policy"),
    (f"channels: [{{{CHANNEL}, groups: []}}]", "channels[0].groups: "),
    (f"channels: [{{{CHANNEL}, header_overrides: {{Authorization: x}}}}]", "channels[0].header_overrides: "),
    (f"channels: [{{{CHANNEL}, parameter_overrides: {{stream: true}}}}]", "channels[0].parameter_overrides: "),
    (f"channels: [{{{CHANNEL}, model_mapping: {{a: 4}}}}]", "channels[0].model_mapping.a: a text is expected"),
    ("channels: [{name: c, base_url: 'https://a.example.com', models: [x], keys: sk-1}]", "channels[0].keys: a list is expected"),
    ("channels: [{name: c, base_url: 'https://a.example.com', models: [x], keys: [a b]}]", "channels[0].keys[0]: An upstream key"),
    ("channels: [{name: c, base_url: 'ftp://a.example.com', models: [x]}]", "channels[0].base_url: "),
    ("channels: [{name: c, base_url: 'https://10.0.0.1', models: [x]}]", "channels[0].base_url: "),
    (
        "channels: [{name: c, base_url: 'https://a.example.com', models: ['a**']}]",
        "channels[0].models: “a**” is no model name or pattern",
    ),
    ("channels: [{name: c, base_url: 'https://a.example.com', models: []}]", "channels[0].models: "),
    (f"channels: [{{{CHANNEL}}}, {{{CHANNEL}}}]", "channels[1].name: the same as channels[0]"),
    ("flags: {RETRY_TIME: 1}", "flags.RETRY_TIME: no such runtime flag (did you mean RETRY_TIMES?)"),
    ("flags: {RETRY_TIMES: many}", "flags.RETRY_TIMES: "),
    ("flags: {RETRY_TIMES: true}", "flags.RETRY_TIMES: "),
    (
        "flags: {IMAGES_FAILOVER_ENABLED: false, IMAGES_FAILOVER_INCLUDE_UNCERTAIN: true}",
        "flags.IMAGES_FAILOVER_INCLUDE_UNCERTAIN: IMAGES_FAILOVER_ENABLED: false switches this off",
    ),
    ("stream_policies: [{name: p, stream_policy: force}]", "stream_policies[0].stream_policy: "),
    ("stream_policies: [{name: p, idle_timeout_seconds: 0}]", "stream_policies[0].idle_timeout_seconds: "),
    ("stream_policies: [{name: p, tool_call_guard: maybe}]", "stream_policies[0].tool_call_guard: true or false"),
    (
        "stream_policies: [{name: p, is_default: true}, {name: q, is_default: true}]",
        "stream_policies[1].is_default: stream_policies[0] is the default already",
    ),
    ("prices: [{model: m}]", "prices[0]: At least one price is expected; free is an explicit 0"),
    ("prices: [{model: m, input: -1}]", "prices[0].input: "),
    ("prices: [{model: m, input: .nan}]", "prices[0].input: "),
    ("prices: [{model: m, input: cheap}]", "prices[0].input: a number is expected"),
    ("prices: [{model: m, input: 1.0000000001}]", "prices[0].input: "),
    ("prices: [{model: m, input: 1, effective_from: 2026-01-01T00:00:00}]", "prices[0].effective_from: a time needs Z"),
    ("prices: [{model: m, input: 1, effective_from: 5}]", "prices[0].effective_from: a date or time is expected"),
    ("prices: [{model: 'a b', input: 1}]", "prices[0].model: “a b” is no model name or pattern with *"),
    ("prices: [{model: m, tiers: [{above_input_tokens: 5, input: x}]}]", "prices[0].tiers: tier 1, input: an amount in USD"),
    ("prices: [{model: m, tiers: null}]", "prices[0].tiers: a list of tiers is expected"),
    ("prices: [{model: m, image_rates: {a/b/c: 1}}]", "prices[0].image_rates: “a/b/c” is no size/quality"),
    ("cost_prices: [{channel: none, model: m, input: 1}]", "cost_prices[0].channel: no such channel"),
    ("cost_prices: [{model: m, input: 1}]", "cost_prices[0].channel: is missing"),
    ("group_multipliers: [{group: vip, multiplier: -1}]", "group_multipliers[0].multiplier: "),
    ("group_multipliers: [{group: 'a b', multiplier: 1}]", "group_multipliers[0].group: “a b” is no group"),
    ("group_multipliers: [{group: g, multiplier: 1}, {group: g, multiplier: 2}]", "group_multipliers[1]: the same as"),
    ("prices: [{model: m, input: 1}, {model: m, input: 2}]", "prices[1]: the same as prices[0]"),
    ("tenants: [{name: no}]", "tenants[0].name: a text is expected, in quotes"),
    ("tenants: [{name: t, group: 'a b'}]", "tenants[0].group: "),
    ("tenants: [{name: t, balance_usd: -1}]", "tenants[0].balance_usd: "),
    ("tenants: [{name: t, balance_usd: .inf}]", "tenants[0].balance_usd: "),
    ("tenants: [{name: t, status: asleep}]", "tenants[0].status: "),
    ("tenants: [{name: t, api_keys: [{name: k, kye: x}]}]", "tenants[0].api_keys[0].kye: unknown field (did you mean key?)"),
    ("tenants: [{name: t, api_keys: [{name: k, key: short}]}]", "tenants[0].api_keys[0]: An API key"),
    ("tenants: [{name: t, api_keys: [{name: k}, {name: k}]}]", "tenants[0].api_keys[1].name: the same as tenants[0].api_keys[0]"),
    ("tenants: [{name: t, api_keys: [{name: k, allowed_networks: [10.0.0.1/8]}]}]", "tenants[0].api_keys[0].allowed_networks: "),
    ("channels: [{name: c, name: d}]", "line 1: “name” is there twice"),
    ("flags: {}\nflags: {}", "line 2: “flags” is there twice, first in line 1"),
    ("a: [", "is no YAML"),
    ("flags: !!python/object:os.system {}", "is no YAML"),
    ("flags: {}\n---\nflags: {}", "is no YAML"),
    ("flags: &a {x: *a}", "is nested too deeply"),
    ("flags: " + "[" * 400 + "]" * 400, "is nested too deeply"),
    ("flags: " + "[" * 20_000, "is nested too deeply"),
    ("flags: {RETRY_TIMES: 2026-13-45}", "holds a number or a date that is none"),
    ("tenants: [{name: '${NOPE}'}]", "tenants[0].name: the environment variable NOPE is not set"),
    ("tenants: [{name: '${no name}'}]", "tenants[0].name: after ${ a name and } are expected"),
    ('tenants: [{name: "a\\0b"}]', "tenants[0].name: holds a NUL character"),
    ('tenants: [{name: "\\ud800"}]', "tenants[0].name: holds half of a surrogate pair"),
    ('tenants: [{name: "${BAD_TEXT}"}]', "tenants[0].name: holds half of a surrogate pair"),
    ('tenants: [{name: t, api_keys: [{name: "k\\0"}]}]', "tenants[0].api_keys[0].name: holds a NUL character"),
    (f'channels: [{{{CHANNEL}, model_mapping: {{"a\\0": b}}}}]', r"channels[0].model_mapping.a\x00: holds a NUL character"),
    (f'channels: [{{{CHANNEL}, parameter_overrides: {{a: [{{b: "\\udfff"}}]}}}}]', "channels[0].parameter_overrides.a[0].b: holds half"),
    (f'channels: [{{{CHANNEL}, tags: ["\\0"]}}]', "channels[0].tags[0]: holds a NUL character"),
    ('"\\ud800": []', r"\ud800: "),
    ('"a\\0": 1\n"a\\0": 2', r"“a\x00” is there twice"),
    ('prices: [{model: "m\\0", input: 1}]', "prices[0].model: holds a NUL character"),
    ('stream_policies: [{name: "p\\0"}]', "stream_policies[0].name: holds a NUL character"),
    ('flags: {"RETRY\\0": 1}', r"flags.RETRY\x00: "),
    ("1: {}", "every name must be a text"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), REFUSALS)
def test_what_is_refused_and_why(apply, text, told):
    before = config_version()
    with pytest.raises(ProvisioningRefused) as caught:
        apply(text)
    assert any(told in line and line.startswith("t.yaml: ") for line in str(caught.value).splitlines()), (
        caught.value
    )
    str(caught.value).encode()
    assert config_version() == before
    assert not any(model.objects.exists() for model in (Channel, StreamPolicy, Tenant, ApiKey))


def test_billion_laughs_are_not_unfolded(apply):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 16)]
    with pytest.raises(ProvisioningRefused, match="unfolds to more than"):
        apply("\n".join(lines))


def test_merged_laughs_are_not_unfolded(apply):
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{at}: &a{at} {{<<: [{', '.join([f'*a{at - 1}'] * 9)}]}}" for at in range(1, 16)]
    with pytest.raises(ProvisioningRefused, match="unfolds to more than"):
        apply("\n".join(lines))


def test_a_file_of_more_than_a_mebibyte_is_refused(apply):
    with pytest.raises(ProvisioningRefused, match="is larger than"):
        apply("# " + "x" * 1024 * 1024)


def test_anchors_and_merges_serve_those_who_know_them(apply):
    apply(
        "channels:\n"
        "  - &one {name: a, base_url: 'https://a.example.com', models: &m [x], keys: [sk-123456]}\n"
        "  - {<<: *one, name: b, models: *m}\n"
    )
    assert set(Channel.objects.values_list("name", flat=True)) == {"a", "b"}


def test_all_problems_are_told_at_once(apply):
    with pytest.raises(ProvisioningRefused) as caught:
        apply(
            "flags: {NOSUCH: 1}\n"
            "channels: [{name: a, base_ulr: x, keys: ['${NOPE}']}, {name: b, base_url: 'https://10.0.0.1', models: [x]}]\n"
            "stream_policies: [{name: p, idle_timeout_seconds: 0}]\n"
            "prices: [{model: m}]\n"
            "tenants: [{name: t, group: 'a b'}]\n"
        )
    assert {problem.path for problem in caught.value.problems} == {
        "flags.NOSUCH",
        "channels[0].base_ulr",
        "channels[0].keys[0]",
        "channels[1].base_url",
        "stream_policies[0].idle_timeout_seconds",
        "prices[0]",
        "tenants[0].group",
    }


def test_a_refused_policy_is_not_told_again_at_its_channel(apply):
    with pytest.raises(ProvisioningRefused) as caught:
        apply(f"stream_policies: [{{name: p, nosuch: 1}}]\nchannels: [{{{CHANNEL}, policy: p}}]")
    assert [problem.path for problem in caught.value.problems] == ["stream_policies[0].nosuch"]


def test_one_bad_entry_at_the_end_undoes_all_before_it(apply):
    before = config_version()
    with pytest.raises(ProvisioningRefused):
        apply(FULL + "  - {name: last, group: 'a b'}\n")
    assert config_version() == before
    assert not Channel.objects.exists()
    assert not Tenant.objects.exists()
    assert not RuntimeFlag.objects.exclude(value=None).exists()


def test_a_dry_run_refuses_what_a_run_would_refuse(apply):
    with pytest.raises(ProvisioningRefused):
        apply("tenants: [{name: t, group: 'a b'}]", is_dry_run=True)


def test_a_pinned_flag_is_refused(apply, settings):
    settings.PINNED_FLAGS = ("RETRY_TIMES",)
    with pytest.raises(ProvisioningRefused, match=r"flags.RETRY_TIMES: is fixed by the environment"):
        apply("flags: {RETRY_TIMES: 2}")


def test_another_key_under_the_same_name_is_refused(apply):
    apply(FULL)
    with pytest.raises(ProvisioningRefused) as caught:
        apply("tenants: [{name: demo, api_keys: [{name: first, key: sk-other-0123456789abcdef}]}]")
    (problem,) = caught.value.problems
    assert problem.path == "tenants[0].api_keys[0].key"
    assert "exists and is another one (sk-canary…)" in problem.reason
    assert "0123456789" not in problem.reason


def test_somebody_elses_key_is_refused(apply):
    apply(FULL)
    with pytest.raises(ProvisioningRefused, match="is already API key first of tenant demo"):
        apply("tenants: [{name: other, api_keys: [{name: k, key: '${TENANT_KEY}'}]}]")
    services.api_key_close(api_key_id=ApiKey.objects.get(name="first").pk)
    with pytest.raises(ProvisioningRefused, match="was closed as API key first of tenant demo"):
        apply(FULL)


def test_references_to_the_environment(apply):
    apply("tenants: [{name: 'a-${PORT}-b'}, {name: 'c-$${PORT}-d'}, {name: 'e$$f$g'}]")
    assert set(Tenant.objects.values_list("name", flat=True)) == {"a-4030-b", "c-${PORT}-d", "e$$f$g"}


def test_numbers_may_come_from_the_environment(apply):
    apply(f"channels: [{{{CHANNEL}, priority: '${{PORT}}'}}]")
    assert Channel.objects.get().priority == 4030


@pytest.mark.parametrize(
    "text",
    [
        f"channels: [{{name: c, keys: {UPSTREAM_CANARY}}}]",
        f"channels: [{{name: c, keys: ['{UPSTREAM_CANARY} x']}}]",
        f"channels: [{{name: c, kind: {UPSTREAM_CANARY}, base_url: '{UPSTREAM_CANARY}', priority: {UPSTREAM_CANARY}}}]",
        f"channels: [{{name: c, base_url: 'https://u:{UPSTREAM_CANARY}@a.example.com', models: [x]}}]",
        f"channels: [{{name: c, keys: *{UPSTREAM_CANARY}}}]",
        f"channels: [{{name: c, keys: [!{UPSTREAM_CANARY} x]}}]",
        f"channels: [{{name: c, keys: ['{UPSTREAM_CANARY}]}}]",
        f"channels: [{{name: c, keys: [@{UPSTREAM_CANARY}]}}]",
        f"tenants: [{{name: t, balance_usd: {UPSTREAM_CANARY}, api_keys: [{{name: k, key: [{UPSTREAM_CANARY}]}}]}}]",
        f"tenants: [{{name: t, api_keys: [{{name: k, key: '{UPSTREAM_CANARY} {API_KEY_CANARY}'}}]}}]",
        f"prices: [{{model: m, input: {UPSTREAM_CANARY}, effective_from: {UPSTREAM_CANARY}}}]",
        f"flags: {{RETRY_TIMES: {UPSTREAM_CANARY}}}",
    ],
)  # fmt: skip
def test_no_problem_repeats_a_secret(apply, text):
    with pytest.raises(ProvisioningRefused) as caught:
        apply(text)
    for canary in (UPSTREAM_CANARY, API_KEY_CANARY):
        assert canary not in str(caught.value)
        assert canary[9:] not in repr(caught.value.problems)


def test_a_price_cannot_be_left_with_nothing(apply):
    """It would mean “free”, which is said by a 0."""
    apply("prices: [{model: m, input: 1}]")
    with pytest.raises(ProvisioningRefused, match="At least one price is expected"):
        apply("prices: [{model: m, input: null}]")
    assert Price.objects.get().input == 1
    apply("prices: [{model: m, input: 0}]")
    assert Price.objects.get(is_closed=False).input == 0
