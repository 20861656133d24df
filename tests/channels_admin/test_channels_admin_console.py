"""The console's pages: they render, they save through the services, and they never show a secret."""

import json
from ipaddress import ip_network

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.core import serializers
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from channels_admin import services
from channels_admin.models import ApiKey, Channel, RuntimeFlag, StreamPolicy, Tenant, UpstreamKey
from channels_admin.selectors import config_version
from channels_admin.statuses import AccessStatus, RouteStatus
from tests.factories.channels import (
    a_channel,
    a_policy,
    a_staff_user,
    a_tenant,
    an_api_key,
    an_upstream_key,
)

pytestmark = pytest.mark.django_db

CANARY = "sk-canary-upstream-0123456789abcdef"


@pytest.fixture
def operator(client):
    """A test client signed in as an operator."""
    client.force_login(a_staff_user("operator"), backend="django.contrib.auth.backends.ModelBackend")
    return client


def url(model, page, *args):
    return reverse(f"admin:channels_admin_{model._meta.model_name}_{page}", args=args)


def form_values(response):
    """What a browser would send back: every field of the form and its inlines, as rendered."""
    form = response.context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    for inline in response.context["inline_admin_formsets"]:
        management = inline.formset.management_form
        values |= {management.add_prefix(name): management[name].value() for name in management.fields}
    return {name: flat for name, value in values.items() if (flat := _flat(value)) is not None}


def _flat(value):
    if isinstance(value, bool):
        return "on" if value else None
    return value


def errors_of(response):
    return response.context["adminform"].form.errors


@pytest.fixture
def rows():
    channel = a_channel(keys=2, policy=a_policy())
    api_key, _ = an_api_key(allowed_models=["gpt-*"])
    return {
        Tenant: api_key.tenant,
        ApiKey: api_key,
        Channel: channel,
        UpstreamKey: channel.upstream_keys.first(),
        StreamPolicy: channel.policy,
        RuntimeFlag: RuntimeFlag.objects.get(name="RETRY_TIMES"),
    }


MODELS = [Tenant, ApiKey, Channel, UpstreamKey, StreamPolicy, RuntimeFlag]


@pytest.mark.parametrize("model", MODELS)
def test_list_change_and_history_render(operator, rows, model):
    row = rows[model]
    listed = operator.get(url(model, "changelist"))
    assert listed.status_code == 200
    assert getattr(row, "name", str(row)) in listed.content.decode()
    assert operator.get(url(model, "change", row.pk)).status_code == 200
    assert operator.get(url(model, "history", row.pk)).status_code == 200


@pytest.mark.parametrize("model", [Tenant, ApiKey, Channel, UpstreamKey, StreamPolicy])
def test_add_pages_render(operator, model):
    assert operator.get(url(model, "add")).status_code == 200


@pytest.mark.parametrize("model", MODELS)
def test_search_and_status_filter_work(operator, rows, model):
    assert operator.get(url(model, "changelist"), {"q": "x"}).status_code == 200
    if hasattr(rows[model], "status"):
        assert operator.get(url(model, "changelist"), {"status": "closed"}).status_code == 200


@pytest.mark.parametrize("model", MODELS)
def test_lists_ask_as_many_queries_for_many_rows_as_for_few(
    operator, rows, model, django_assert_max_num_queries
):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            operator.get(url(model, "changelist"))
        return len(captured)

    queries()
    few = queries()
    for _ in range(5):
        a_channel(keys=2, policy=a_policy())
        an_api_key()
    assert queries() <= few


def test_a_channel_is_added_with_pasted_keys_and_logged(operator):
    page = operator.get(url(Channel, "add"))
    before = config_version()
    values = {
        **form_values(page),
        "name": "new channel",
        "base_url": "https://upstream.example.com/v1/",
        "models": "gpt-*\n\n  claude-*  \n",
        "model_mapping": '{"a": "b"}',
        "header_overrides": "",
        "pasted_keys": f"{CANARY}\r\nsk-second-0123456789\r\n",
    }
    response = operator.post(url(Channel, "add"), values)
    assert response.status_code == 302, errors_of(response)
    channel = Channel.objects.get(name="new channel")
    assert channel.base_url == "https://upstream.example.com"
    assert (channel.models, channel.model_mapping) == (["gpt-*", "claude-*"], {"a": "b"})
    assert (channel.header_overrides, channel.groups) == ({}, ["default"])
    assert channel.upstream_keys.count() == 2
    assert channel.version == before + 1
    assert LogEntry.objects.get(object_id=str(channel.pk)).is_addition()


def test_a_changed_channel_saves_only_what_changed(operator):
    channel = a_channel(models=["gpt-*"], header_overrides={"X-Title": "t"})
    page = operator.get(url(Channel, "change", channel.pk))
    values = form_values(page)
    before = config_version()
    assert operator.post(url(Channel, "change", channel.pk), values).status_code == 302
    assert config_version() == before
    values["weight"] = "8"
    assert operator.post(url(Channel, "change", channel.pk), values).status_code == 302
    channel.refresh_from_db()
    assert (channel.weight, channel.version) == (8, before + 1)
    assert (channel.models, channel.header_overrides) == (["gpt-*"], {"X-Title": "t"})
    message = json.loads(LogEntry.objects.order_by("pk").last().change_message)
    assert message == [{"changed": {"fields": ["Weight"]}}]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base_url", "http://10.1.2.3"),
        ("models", ""),
        ("models", "two words"),
        ("model_mapping", "{"),
        ("model_mapping", "[]"),
        ("header_overrides", '{"Connection": "close"}'),
        ("groups", "two words"),
        ("weight", "0"),
        ("connect_timeout_seconds", "0"),
        ("pasted_keys", "two words"),
    ],
)
def test_bad_channel_input_is_told_at_the_field_and_changes_nothing(operator, field, value):
    channel = a_channel()
    values = form_values(operator.get(url(Channel, "change", channel.pk)))
    before = config_version()
    response = operator.post(url(Channel, "change", channel.pk), {**values, field: value})
    assert response.status_code == 200
    assert list(errors_of(response)) == [field]
    assert config_version() == before


def test_priority_and_weight_are_edited_in_the_list(operator):
    channel = a_channel()
    before = config_version()
    values = {
        "form-TOTAL_FORMS": "1",
        "form-INITIAL_FORMS": "1",
        "form-0-id": str(channel.pk),
        "form-0-priority": "5",
        "form-0-weight": "6",
        "_save": "Save",
    }
    assert operator.post(url(Channel, "changelist"), values).status_code == 302
    channel.refresh_from_db()
    assert (channel.priority, channel.weight, channel.version) == (5, 6, before + 1)


def test_a_row_edit_that_the_service_refuses_is_told(operator, settings):
    settings.UPSTREAM_ALLOWED_PRIVATE_NETS = (ip_network("10.0.0.0/8"),)
    channel = a_channel(base_url="http://10.0.0.1")
    settings.UPSTREAM_ALLOWED_PRIVATE_NETS = ()
    values = {
        "form-TOTAL_FORMS": "1",
        "form-INITIAL_FORMS": "1",
        "form-0-id": str(channel.pk),
        "form-0-priority": "5",
        "form-0-weight": "6",
        "_save": "Save",
    }
    response = operator.post(url(Channel, "changelist"), values, follow=True)
    assert "address" in str([str(message) for message in response.context["messages"]])
    channel.refresh_from_db()
    assert channel.priority == 0


@pytest.mark.parametrize(
    ("parameter", "word"),
    [("group", "gold"), ("tag", "eu west"), ("model", "claude-*"), ("status", "enabled")],
)
def test_channel_filters_find_the_whole_word(operator, parameter, word):
    wanted = a_channel(name="wanted", groups=["gold"], tags=["eu west"], models=["claude-*"])
    other = a_channel(name="other", groups=["goldfish"], tags=["eu west 2"], models=["claude-*-x"])
    services.channel_set_status(channel_id=other.pk, status=RouteStatus.DISABLED)
    found = operator.get(url(Channel, "changelist"), {parameter: word}).context["cl"].result_list
    assert [channel.pk for channel in found] == [wanted.pk]


def act(client, model, action, *rows, confirmed=False):
    values = {"action": action, "_selected_action": [row.pk for row in rows]}
    return client.post(url(model, "changelist"), {**values, **({"confirmed": "yes"} if confirmed else {})})


@pytest.mark.parametrize(
    ("action", "status"), [("disable_channels", "disabled"), ("enable_channels", "enabled")]
)
def test_channels_are_switched_by_actions_and_logged(operator, action, status):
    channel = a_channel()
    services.channel_set_status(channel_id=channel.pk, status=RouteStatus.AUTO_DISABLED)
    before = config_version()
    assert act(operator, Channel, action, channel).status_code == 302
    channel.refresh_from_db()
    assert (channel.status, channel.version) == (status, before + 1)
    assert LogEntry.objects.filter(object_id=str(channel.pk)).count() == 1


@pytest.mark.parametrize(
    ("model", "action", "make"),
    [
        (Tenant, "close_tenants", lambda: an_api_key()[0].tenant),
        (ApiKey, "close_api_keys", lambda: an_api_key()[0]),
        (Channel, "close_channels", a_channel),
        (UpstreamKey, "close_upstream_keys", lambda: an_upstream_key(a_channel(keys=0))),
    ],
)
def test_closing_asks_first_with_the_consequence_in_numbers(operator, model, action, make):
    row = make()
    asked = act(operator, model, action, row)
    assert asked.status_code == 200
    assert "1 " in asked.context["consequence"]
    assert str(row) in asked.content.decode()
    row.refresh_from_db()
    assert row.status != AccessStatus.CLOSED
    assert act(operator, model, action, row, confirmed=True).status_code == 302
    row.refresh_from_db()
    assert row.status == AccessStatus.CLOSED


def test_upstream_keys_are_switched_by_actions(operator):
    key = a_channel().upstream_keys.get()
    act(operator, UpstreamKey, "disable_upstream_keys", key)
    key.refresh_from_db()
    assert key.status == RouteStatus.DISABLED
    act(operator, UpstreamKey, "enable_upstream_keys", key)
    key.refresh_from_db()
    assert key.status == RouteStatus.ENABLED


def test_a_closed_tenant_can_be_reopened(operator):
    tenant = a_tenant()
    act(operator, Tenant, "close_tenants", tenant, confirmed=True)
    act(operator, Tenant, "reopen_tenants", tenant)
    tenant.refresh_from_db()
    assert tenant.status == AccessStatus.ACTIVE


def test_many_upstream_keys_are_pasted_at_once(operator):
    channel = a_channel(keys=0)
    values = {"channel": channel.pk, "pasted_keys": f"{CANARY}\nsk-second-0123456789\n{CANARY}"}
    response = operator.post(url(UpstreamKey, "add"), values, follow=True)
    assert "2 upstream keys added" in response.content.decode()
    assert channel.upstream_keys.count() == 2
    assert LogEntry.objects.filter(action_flag=1).count() == 2


def test_a_bad_pasted_key_is_told_by_its_number(operator):
    values = {"channel": a_channel(keys=0).pk, "pasted_keys": f"{CANARY}\ntwo words"}
    response = operator.post(url(UpstreamKey, "add"), values)
    assert "Key 2:" in str(errors_of(response))
    assert CANARY not in response.content.decode()


def test_an_api_key_is_shown_once_and_never_cached(operator):
    tenant = a_tenant()
    page = operator.get(url(ApiKey, "add"))
    values = {**form_values(page), "tenant": tenant.pk, "name": "laptop", "allowed_networks": "10.0.0.0/8"}
    response = operator.post(url(ApiKey, "add"), values)
    assert response.status_code == 200
    assert "no-store" in response.headers["Cache-Control"]
    plain = response.context["plain"]
    assert plain in response.content.decode()
    api_key = ApiKey.objects.get()
    assert (api_key.prefix, api_key.allowed_networks) == (plain[:9], ["10.0.0.0/8"])
    assert plain not in everything_shown_and_stored(operator)


def test_the_tenant_of_an_api_key_never_changes(operator):
    api_key, _ = an_api_key()
    other = a_tenant()
    values = form_values(operator.get(url(ApiKey, "change", api_key.pk)))
    operator.post(url(ApiKey, "change", api_key.pk), {**values, "tenant": other.pk, "name": "renamed"})
    changed = ApiKey.objects.get(pk=api_key.pk)
    assert (changed.name, changed.tenant_id) == ("renamed", api_key.tenant_id)


def test_what_a_service_refuses_late_is_told_and_not_a_crash(operator, monkeypatch):
    """Two operators, one name: the second form was valid when it was checked."""
    values = {**form_values(operator.get(url(Tenant, "add"))), "name": "acme"}
    from channels_admin.admin import tenants  # noqa: PLC0415  the module whose name is replaced below

    create = tenants.tenant_create

    def second(**fields):
        create(**fields)
        return create(**fields)

    monkeypatch.setattr(tenants, "tenant_create", second)
    response = operator.post(url(Tenant, "add"), values, follow=True)
    assert response.status_code == 200
    assert "already exists" in response.content.decode()
    assert not Tenant.objects.filter(name="acme").exists()


def test_a_policy_becomes_the_default_from_the_console(operator):
    first, second = a_policy(is_default=True), a_policy()
    values = form_values(operator.get(url(StreamPolicy, "change", second.pk)))
    response = operator.post(url(StreamPolicy, "change", second.pk), {**values, "is_default": "on"})
    assert response.status_code == 302, errors_of(response)
    first.refresh_from_db()
    assert not first.is_default


def flag_row(name):
    return RuntimeFlag.objects.get(name=name)


def test_every_known_flag_is_listed_with_value_and_source(operator, monkeypatch):
    monkeypatch.setenv("RETRY_TIMES", "4")
    services.runtime_flag_set(name="CHANNEL_RETRY_TIMES", value=3, changed_by="ada")
    RuntimeFlag.objects.create(name="FLAG_OF_ANOTHER_VERSION", value=1)
    response = operator.get(url(RuntimeFlag, "changelist"))
    admin = response.context["cl"].model_admin
    shown = {
        row.name: (admin.effective(row), admin.source(row)[0]) for row in response.context["cl"].result_list
    }
    assert len(shown) == 23
    assert shown["RETRY_TIMES"] == ("4", "environment")
    assert shown["CHANNEL_RETRY_TIMES"] == ("3", "console")
    assert shown["RETENTION_DAYS"] == ("90", "default")
    assert shown["IMAGES_FAILOVER_ENABLED"] == ("off", "default")
    assert "ada" in response.content.decode()


@pytest.mark.parametrize(
    ("name", "sent", "saved"),
    [
        ("RETRY_TIMES", "7", 7),
        ("RETRY_BUDGET_SECONDS", "1.5", 1.5),
        ("IDEMPOTENT_ANSWERS", "true", True),
        ("IDEMPOTENT_ANSWERS", "false", False),
        ("IMAGE_CONCURRENCY_SCOPE", "cluster", "cluster"),
        ("IMAGE_MODEL_PATTERNS", "a-*\nb", ["a-*", "b"]),
    ],
)
def test_a_flag_is_saved_and_cleared_from_the_console(operator, name, sent, saved):
    page = url(RuntimeFlag, "change", flag_row(name).pk)
    before = config_version()
    assert operator.post(page, {"console_value": sent}).status_code == 302
    row = flag_row(name)
    assert (row.value, row.version) == (saved, before + 1)
    assert row.changed_by.startswith("operator")
    again = form_values(operator.get(page))
    assert operator.post(page, again).status_code == 302
    assert config_version() == before + 1
    assert operator.post(page, {"console_value": ""}).status_code == 302
    assert flag_row(name).value is None


def test_a_bad_flag_value_is_told_at_the_field(operator):
    response = operator.post(
        url(RuntimeFlag, "change", flag_row("RETRY_TIMES").pk), {"console_value": "many"}
    )
    assert list(errors_of(response)) == ["console_value"]


def test_a_pinned_flag_shows_so_and_cannot_be_saved(operator, settings):
    settings.PINNED_FLAGS = ("RETRY_TIMES",)
    row = flag_row("RETRY_TIMES")
    page = operator.get(url(RuntimeFlag, "change", row.pk))
    assert "PINNED_FLAGS" in page.content.decode()
    before = config_version()
    operator.post(url(RuntimeFlag, "change", row.pk), {"console_value": "9"})
    assert (flag_row("RETRY_TIMES").value, config_version()) == (None, before)


def test_flags_are_neither_added_nor_deleted_in_the_console(operator):
    assert operator.get(url(RuntimeFlag, "add")).status_code == 403
    assert operator.post(url(RuntimeFlag, "delete", flag_row("RETRY_TIMES").pk)).status_code == 403


@pytest.mark.parametrize("model", MODELS)
def test_not_even_a_superuser_deletes(client, rows, model):
    client.force_login(a_staff_user("superuser"), backend="django.contrib.auth.backends.ModelBackend")
    assert client.post(url(model, "delete", rows[model].pk), {"post": "yes"}).status_code == 403
    assert "delete_selected" not in client.get(url(model, "changelist")).content.decode()
    assert model.objects.filter(pk=rows[model].pk).exists()


def everything_shown_and_stored(client):
    """Every console page of this app, its log, and every column of every table, as one text."""
    texts = []
    for model in MODELS:
        texts.append(client.get(url(model, "changelist")).content.decode())
        for row in model.objects.all():
            texts += [client.get(url(model, page, row.pk)).content.decode() for page in ("change", "history")]
    for model in apps.get_models():
        if model._meta.managed:
            texts.append(serializers.serialize("json", model._default_manager.all()))
    return "\n".join(texts)


def test_canary_a_pasted_upstream_key_is_never_seen_again(operator):
    channel = a_channel(keys=0)
    values = form_values(operator.get(url(Channel, "change", channel.pk)))
    pasted = {**values, "pasted_keys": CANARY}
    refused = operator.post(url(Channel, "change", channel.pk), {**pasted, "weight": "0"})
    assert CANARY not in refused.content.decode()
    assert operator.post(url(Channel, "change", channel.pk), pasted).status_code == 302
    operator.post(url(UpstreamKey, "add"), {"channel": a_channel(keys=0).pk, "pasted_keys": CANARY})
    assert UpstreamKey.objects.count() == 2
    everything = everything_shown_and_stored(operator)
    assert CANARY not in everything
    assert CANARY[8:-8] not in everything


def test_the_console_speaks_chinese_without_breaking(operator, rows):
    for model in MODELS:
        page = url(model, "change", rows[model].pk)
        assert operator.get(page, headers={"accept-language": "zh-hans"}).status_code == 200
