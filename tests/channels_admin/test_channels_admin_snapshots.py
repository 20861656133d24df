"""Sections: what serves, what is reused object by object, and how many queries it costs."""

import dataclasses

import pytest

from channels_admin import services, snapshots
from channels_admin.health import Route, RouteKind
from channels_admin.models import ConfigVersion
from channels_admin.services.route_health import route_auto_disable
from channels_admin.snapshots import load_section
from channels_admin.statuses import RouteStatus
from relay.core import types
from tests.factories.channels import a_channel, a_policy, a_tenant, an_upstream_key

pytestmark = pytest.mark.django_db


def test_nothing_changed_is_one_query_and_the_same_object(django_assert_num_queries):
    a_channel()
    section = load_section(None)
    with django_assert_num_queries(1):
        assert load_section(section) is section


def test_an_empty_configuration_is_a_section_of_defaults():
    section = load_section(None)
    assert dict(section.channels) == {}
    assert section.flags == types.RelayFlags()
    assert section.default_policy == types.StreamPolicy()


def test_every_field_of_a_channel_arrives():
    policy = a_policy(
        name="slow",
        stream_policy="force_stream",
        header_timeout_seconds=1,
        first_event_timeout_seconds=2,
        idle_timeout_seconds=3,
        image_idle_timeout_seconds=4,
        event_idle_timeout_seconds=5,
        total_timeout_seconds=6,
        early_commit_seconds=7,
        preamble_hold_ms=2500,
        tool_call_guard=True,
        disconnect_policy="drain",
    )
    row = a_channel(
        keys=0,
        name="full",
        base_url="https://upstream.example.com/v1",
        proxy_url="http://proxy.example.com:3128",
        models=["gpt-*"],
        model_mapping={"a": "b"},
        priority=3,
        weight=4,
        groups=["gold"],
        policy=policy,
        key_mode="random",
        connect_timeout_seconds=5,
        non_stream_timeout_seconds=6,
        request_stream_usage=False,
        header_overrides={"X-Title": "t"},
        parameter_overrides={"temperature": 1},
    )
    key = an_upstream_key(row, "sk-upstream-0123456789abcdef")
    channel = load_section(None).channels[row.pk]
    (upstream_key,) = channel.keys
    assert (upstream_key.id, upstream_key.label) == (key.pk, "sk-u…cdef")
    assert upstream_key.secret.reveal() == "sk-upstream-0123456789abcdef"
    assert dataclasses.replace(channel, keys=()) == types.Channel(
        id=row.pk,
        name="full",
        kind="openai",
        base_url="https://upstream.example.com",
        models=("gpt-*",),
        keys=(),
        model_mapping={"a": "b"},
        priority=3,
        weight=4,
        groups=frozenset({"gold"}),
        key_mode=types.KeyMode.RANDOM,
        policy=types.StreamPolicy(
            name="slow",
            stream_policy=types.StreamMode.FORCE_STREAM,
            header_timeout_s=1,
            first_event_timeout_s=2,
            idle_timeout_s=3,
            image_idle_timeout_s=4,
            event_idle_timeout_s=5,
            total_timeout_s=6,
            early_commit_s=7,
            preamble_hold_s=2.5,
            tool_call_guard=True,
            disconnect_policy=types.DisconnectPolicy.DRAIN,
        ),
        connect_timeout_s=5,
        non_stream_timeout_s=6,
        request_stream_usage=False,
        header_overrides={"X-Title": "t"},
        parameter_overrides={"temperature": 1},
        proxy_url="http://proxy.example.com:3128",
    )


@pytest.mark.parametrize("status", [RouteStatus.DISABLED, RouteStatus.AUTO_DISABLED, RouteStatus.CLOSED])
def test_only_enabled_channels_with_enabled_keys_are_in(status):
    serving, off, keyless = a_channel(), a_channel(), a_channel()
    empty = a_channel(keys=0)
    services.channel_set_status(channel_id=off.pk, status=status)
    services.upstream_key_set_status(upstream_key_id=keyless.upstream_keys.get().pk, status=status)
    section = load_section(None)
    assert set(section.channels) == {serving.pk}
    assert [
        [channel.id for channel in tier]
        for tier in section.index.tiers("default", serving.models[0], "openai_chat")
    ] == [[serving.pk]]
    assert {off.pk, keyless.pk, empty.pk}.isdisjoint(section.channels)
    assert (off.pk in section.listed) is (status != RouteStatus.CLOSED)
    assert {keyless.pk, empty.pk} <= set(section.listed)
    assert all(not section.listed[pk].keys for pk in section.listed if pk != serving.pk)


def test_a_changed_channel_is_new_and_every_other_object_is_reused():
    changed, kept = a_channel(keys=2), a_channel()
    before = load_section(None)
    services.channel_update(channel_id=changed.pk, weight=9)
    after = load_section(before)
    assert after.channels[changed.pk].weight == 9
    assert after.channels[kept.pk] is before.channels[kept.pk]
    assert all(
        new is old
        for new, old in zip(after.channels[changed.pk].keys, before.channels[changed.pk].keys, strict=True)
    )
    assert after.flag_values is before.flag_values
    assert after.flags is before.flags
    assert after.policies is before.policies
    assert after.index is not before.index


def test_an_unsealed_secret_stays_unsealed_when_its_channel_changes(monkeypatch):
    row = a_channel()
    before = load_section(None)
    secret = before.channels[row.pk].keys[0].secret
    secret.reveal()
    services.channel_update(channel_id=row.pk, weight=9)
    assert load_section(before).channels[row.pk].keys[0].secret is secret


def test_a_changed_flag_leaves_channels_and_index_alone():
    a_channel()
    before = load_section(None)
    services.runtime_flag_set(name="RETRY_TIMES", value=7)
    after = load_section(before)
    assert (after.flags.retry_times, after.flag_values["RETRY_TIMES"]) == (7, 7)
    assert after.channels is before.channels
    assert after.index is before.index
    services.runtime_flag_clear(name="RETRY_TIMES")
    assert load_section(after).flags.retry_times == 2


def test_a_change_of_tenants_moves_the_version_alone():
    a_channel()
    before = load_section(None)
    a_tenant()
    after = load_section(before)
    assert after.version == before.version + 1
    assert dataclasses.replace(after, version=before.version) == before
    assert after.index is before.index


def test_the_queries_of_a_reload_do_not_grow_with_the_rows(django_assert_max_num_queries):
    for _ in range(12):
        a_channel(keys=3)
    first = a_channel(keys=3)
    with django_assert_max_num_queries(10):
        section = load_section(None)
    services.channel_update(channel_id=first.pk, weight=2)
    with django_assert_max_num_queries(9):
        load_section(section)


def test_switching_a_channel_or_its_last_key_takes_it_out_and_back_in():
    row = a_channel()
    key = row.upstream_keys.get()
    section = load_section(None)

    def channel_status(status):
        services.channel_set_status(channel_id=row.pk, status=status)

    def key_status(status):
        services.upstream_key_set_status(upstream_key_id=key.pk, status=status)

    for switch in (channel_status, key_status):
        switch(RouteStatus.DISABLED)
        section = load_section(section)
        assert not section.channels
        switch(RouteStatus.ENABLED)
        section = load_section(section)
        assert set(section.channels) == {row.pk}


def test_a_changed_policy_reaches_its_channels_and_no_others():
    policy = a_policy(total_timeout_seconds=10)
    row, other = a_channel(policy=policy), a_channel()
    before = load_section(None)
    services.stream_policy_update(policy_id=policy.pk, total_timeout_seconds=20)
    after = load_section(before)
    assert after.channels[row.pk].policy.total_timeout_s == 20
    assert after.channels[row.pk].keys == before.channels[row.pk].keys
    assert after.channels[other.pk] is before.channels[other.pk]


def test_the_default_policy_reaches_channels_without_one():
    own = a_policy(name="own")
    bare, explicit = a_channel(), a_channel(policy=own)
    section = load_section(None)
    assert section.channels[bare.pk].policy == types.StreamPolicy()
    default = a_policy(name="house", total_timeout_seconds=99, is_default=True)
    after = load_section(section)
    assert after.channels[bare.pk].policy.name == "house"
    assert after.channels[bare.pk].policy is after.default_policy
    assert after.channels[explicit.pk] is section.channels[explicit.pk]
    services.stream_policy_update(policy_id=default.pk, is_default=False)
    assert load_section(after).channels[bare.pk].policy == types.StreamPolicy()


def test_a_channel_without_a_policy_of_its_own_again_gets_the_default():
    row = a_channel(policy=a_policy(name="own"))
    section = load_section(None)
    services.channel_update(channel_id=row.pk, policy=None)
    assert load_section(section).channels[row.pk].policy == types.StreamPolicy()


def test_a_version_that_went_back_reads_everything_again():
    row = a_channel()
    section = load_section(None)
    ConfigVersion.objects.update(number=1)
    after = load_section(section)
    assert after.version == 1
    assert after.channels[row.pk] is not section.channels[row.pk]


def test_a_commit_between_two_queries_is_never_half_seen(monkeypatch):
    """A change that lands after the channels were read, but before the flags are, is read again."""
    row = a_channel()
    before = load_section(None)
    services.tenant_create(name="starts a reload")
    read_flags, landed = snapshots._flags, []

    def flags_after_a_commit(*args):
        if not landed:
            landed.append(services.channel_update(channel_id=row.pk, weight=8))
            services.runtime_flag_set(name="RETRY_TIMES", value=8)
        return read_flags(*args)

    monkeypatch.setattr(snapshots, "_flags", flags_after_a_commit)
    after = load_section(before)
    assert (after.channels[row.pk].weight, after.flags.retry_times) == (8, 8)


def test_commits_without_end_are_put_right_by_the_next_poll(monkeypatch):
    row = a_channel()
    before = load_section(None)
    services.tenant_create(name="starts a reload")
    read_flags = snapshots._flags

    def flags_after_a_commit(*args):
        services.channel_update(channel_id=row.pk, weight=before.version + len(args))
        return read_flags(*args)

    monkeypatch.setattr(snapshots, "_flags", flags_after_a_commit)
    torn = load_section(before)
    monkeypatch.undo()
    services.channel_update(channel_id=row.pk, weight=77)
    assert load_section(torn).channels[row.pk].weight == 77


def test_a_saved_flag_that_no_longer_parses_does_not_stop_the_reload(caplog):
    services.runtime_flag_set(name="RETRY_TIMES", value=3)
    from channels_admin.models import RuntimeFlag  # noqa: PLC0415  only this test goes past the services

    RuntimeFlag.objects.filter(name="RETRY_TIMES").update(value="from a newer version")
    assert load_section(None).flags.retry_times == 2
    assert "RETRY_TIMES" in caplog.text


@pytest.mark.parametrize(
    ("channel_status", "key_status", "expected"),
    [
        (RouteStatus.ENABLED, RouteStatus.ENABLED, False),
        (RouteStatus.ENABLED, RouteStatus.AUTO_DISABLED, True),
        (RouteStatus.AUTO_DISABLED, RouteStatus.ENABLED, True),
        (RouteStatus.AUTO_DISABLED, RouteStatus.DISABLED, False),
        (RouteStatus.DISABLED, RouteStatus.AUTO_DISABLED, False),
        (RouteStatus.CLOSED, RouteStatus.AUTO_DISABLED, False),
    ],
)
def test_keys_that_are_out_by_themselves(channel_status, key_status, expected):
    row = a_channel()
    key = row.upstream_keys.get()
    row.upstream_keys.update(status=key_status.value)
    type(row).objects.filter(pk=row.pk).update(status=channel_status.value)
    assert (key.pk in load_section(None).auto_disabled_keys) is expected


def test_a_key_that_goes_out_by_itself_is_known_with_the_change():
    row = a_channel()
    key = row.upstream_keys.get()
    before = load_section(None)
    route_auto_disable(route=Route(RouteKind.KEY, key.pk), reason="test")
    assert load_section(before).auto_disabled_keys == {key.pk}
