"""The console's pages of prices: errors at their fields, new rows for new values, the preview, what is unpriced."""

import datetime
from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from billing.core.prices import PriceParts, Tier
from billing.models import CostPrice, GroupMultiplier, Price, UsageDaily
from billing.selectors.unpriced import UnpricedModel, unpriced_models
from billing.services.prices import cost_price_set, group_multiplier_set, price_close, price_set
from channels_admin.roles import Role
from channels_admin.services import channel_set_status
from channels_admin.statuses import RouteStatus
from tests.factories.channels import a_channel, a_staff_user, a_tenant

pytestmark = [
    pytest.mark.django_db,
    # Whitenoise wants STATIC_ROOT, which only a deployment with collectstatic has.
    pytest.mark.filterwarnings("ignore:No directory at:UserWarning"),
]

NEW_YEAR = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
START = {"effective_from_0": "2026-01-01", "effective_from_1": "00:00:00"}
TIERS = '[{"above_input_tokens": 200000, "input": "2.5"}]'


def page(model, kind="changelist", *args) -> str:
    return reverse(f"admin:billing_{model._meta.model_name}_{kind}", args=args)


@pytest.fixture
def clerk(client):
    client.force_login(a_staff_user(Role.BILLING.value), backend="django.contrib.auth.backends.ModelBackend")
    return client


def a_price(**fields):
    defaults = {"model": "m", "parts": PriceParts(input=Decimal("2.50"), output=Decimal(10))}
    return price_set(**({"effective_from": NEW_YEAR} | defaults | fields)).price


def errors(answer):
    return answer.context["adminform"].form.errors


# ---- forms


def test_a_price_with_everything_is_added(clerk):
    form = START | {"model": "m", "input": "1.25", "per_image": "0.04", "tiers": TIERS}
    form["image_rates"] = '{"1024x1024/High": 0.167}'
    assert clerk.post(page(Price, "add"), form).status_code == 302
    row = Price.objects.get()
    assert (row.input, row.per_image) == (Decimal("1.25"), Decimal("0.04"))
    assert row.tiers == [{"above_input_tokens": 200000, "input": "2.5"}]
    assert row.image_rates == {"1024x1024/high": "0.167"}


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("tiers", "[", "valid JSON"),
        ("tiers", '{"above_input_tokens": 5}', "JSON list"),
        (
            "tiers",
            '[{"above_input_tokens": 5, "input": "x"}]',
            "tier 1, input: an amount in USD is expected.",
        ),
        ("tiers", '[{"input": "1"}]', "tier 1: above_input_tokens must be a whole number"),
        ("image_rates", '{"a b": 1}', "“a b” is no size/quality, size or quality."),
        ("image_rates", "[]", "JSON object"),
        ("input", "-1", "greater than or equal to 0"),
        ("input", "0.0000000001", "9 decimal places"),
        ("model", "a b", "“a b” is no model name"),
        ("group", "a b", "“a b” is no group"),
    ],
)
def test_what_is_wrong_is_told_at_its_field(clerk, field, value, told):
    answer = clerk.post(page(Price, "add"), START | {"model": "m", "input": "1", field: value})
    assert answer.status_code == 200
    assert list(errors(answer)) == [field]
    assert told in errors(answer)[field][0]
    assert not Price.objects.exists()


@pytest.mark.parametrize("model", [Price, CostPrice, GroupMultiplier])
def test_adding_what_is_there_is_told_and_overwrites_nothing(clerk, model):
    channel = a_channel()
    rows = {
        Price: lambda: a_price(model="m"),
        CostPrice: lambda: cost_price_set(
            channel_id=channel.pk, model="m", parts=PriceParts(input=Decimal(1)), effective_from=NEW_YEAR
        ),
        GroupMultiplier: lambda: group_multiplier_set(
            group="vip", multiplier=Decimal(1), effective_from=NEW_YEAR
        ),
    }
    rows[model]()
    before = list(model.objects.values())
    form = START | {"model": "m", "channel": channel.pk, "input": "3", "multiplier": "3"}
    form["group"] = "vip" if model is GroupMultiplier else ""
    answer = clerk.post(page(model, "add"), form)
    assert answer.status_code == 200
    assert list(errors(answer)) == ["__all__"]
    assert "exists" in errors(answer)["__all__"][0]
    assert list(model.objects.values()) == before
    later = form | {"effective_from_0": "2026-02-01"}
    assert clerk.post(page(model, "add"), later).status_code == 302


@pytest.mark.parametrize("model", [Price, CostPrice])
def test_a_price_that_says_nothing_is_told(clerk, model):
    form = START | {"model": "m", "channel": a_channel().pk, "tiers": "", "image_rates": ""}
    answer = clerk.post(page(model, "add"), form)
    assert answer.status_code == 200
    assert errors(answer) == {"__all__": ["At least one price is expected; free is an explicit 0."]}
    assert not model.objects.exists()
    assert clerk.post(page(model, "add"), form | {"input": "0"}).status_code == 302
    row = model.objects.get()
    assert clerk.post(page(model, "change", row.pk), {"input": ""}).status_code == 200
    assert model.objects.get() == row
    assert not row.is_closed


@pytest.mark.parametrize(("field", "value"), [("input", "-1"), ("tiers", "["), ("image_rates", "[]")])
def test_a_price_that_is_wrong_is_not_also_missing(clerk, field, value):
    answer = clerk.post(page(Price, "add"), START | {"model": "m", field: value})
    assert list(errors(answer)) == [field]


def test_saving_what_is_shown_changes_nothing(clerk):
    row = a_price(tiers=(Tier(1000, PriceParts(input=Decimal("1.5"))),), image_rates={"high": Decimal("0.5")})
    form = clerk.get(page(Price, "change", row.pk)).context["adminform"].form
    shown = {name: "" if form[name].value() is None else str(form[name].value()) for name in form.fields}
    assert shown["input"] == "2.5", "no trailing zeros"
    assert clerk.post(page(Price, "change", row.pk), shown).status_code == 302
    assert Price.objects.get() == row


def test_a_changed_tier_makes_a_new_row_and_keeps_the_rest(clerk):
    row = a_price(image_rates={"high": Decimal("0.5")})
    form = {"input": "2.5", "output": "10", "tiers": TIERS, "image_rates": '{"high": "0.5"}'}
    assert clerk.post(page(Price, "change", row.pk), form).status_code == 302
    row.refresh_from_db()
    assert row.is_closed
    new = Price.objects.get(is_closed=False)
    assert new.tiers == [{"above_input_tokens": 200000, "input": "2.5"}]
    assert (new.input, new.output, new.image_rates) == (Decimal("2.5"), 10, {"high": "0.5"})
    assert clerk.post(page(Price, "change", new.pk), form | {"tiers": ""}).status_code == 302
    assert Price.objects.get(is_closed=False).tiers == []


def test_the_page_shows_what_each_part_costs_and_why(clerk):
    row = a_price(tiers=(Tier(1000, PriceParts(input=Decimal(3))),))
    text = clerk.get(page(Price, "change", row.pk)).content.decode()
    for line in (
        "cached_input: 2.5 USD (input)",
        "reasoning: 10 USD (output)",
        "cached_input &gt; 1000: 3 USD (input, above 1000 input tokens)",
    ):
        assert line in text


def test_a_cost_price_is_added_changed_and_closed(clerk):
    channel = a_channel()
    form = START | {"channel": channel.pk, "model": "sent", "input": "1"}
    assert clerk.post(page(CostPrice, "add"), form).status_code == 302
    row = CostPrice.objects.get()
    assert (row.channel, row.model, row.input) == (channel, "sent", 1)
    assert clerk.post(page(CostPrice, "change", row.pk), {"input": "2"}).status_code == 302
    new = CostPrice.objects.get(is_closed=False)
    assert (new.channel, new.input) == (channel, 2)
    action = {"action": "close_cost_prices", "_selected_action": [new.pk]}
    assert clerk.post(page(CostPrice), action).status_code == 200
    assert CostPrice.objects.filter(is_closed=False).exists(), "it asks first"
    clerk.post(page(CostPrice), action | {"confirmed": "1"})
    assert not CostPrice.objects.filter(is_closed=False).exists()


def test_a_multiplier_is_added_changed_and_closed(clerk):
    form = START | {"group": "vip", "multiplier": "0.8"}
    assert clerk.post(page(GroupMultiplier, "add"), form).status_code == 302
    row = GroupMultiplier.objects.get()
    assert clerk.post(page(GroupMultiplier, "change", row.pk), {"multiplier": "0.9"}).status_code == 302
    new = GroupMultiplier.objects.get(is_closed=False)
    assert (new.group, new.effective_from, new.multiplier) == ("vip", NEW_YEAR, Decimal("0.9"))
    action = {"action": "close_multipliers", "_selected_action": [new.pk], "confirmed": "1"}
    clerk.post(page(GroupMultiplier), action)
    assert not GroupMultiplier.objects.filter(is_closed=False).exists()
    answer = clerk.post(page(GroupMultiplier, "add"), form | {"multiplier": "-1"})
    assert list(errors(answer)) == ["multiplier"]


@pytest.mark.parametrize("model", [Price, CostPrice, GroupMultiplier])
def test_a_closed_row_can_be_read_and_not_changed(clerk, model):
    row = {
        Price: a_price,
        CostPrice: lambda: (
            cost_price_set(
                channel_id=a_channel().pk,
                model="m",
                parts=PriceParts(input=Decimal(1)),
                effective_from=NEW_YEAR,
            ).cost_price
        ),
        GroupMultiplier: lambda: (
            group_multiplier_set(group="vip", multiplier=Decimal(1), effective_from=NEW_YEAR).multiplier
        ),
    }[model]()
    model.objects.update(is_closed=True, effective_to=NEW_YEAR)
    answer = clerk.get(page(model, "change", row.pk))
    assert answer.status_code == 200
    assert 'name="_save"' not in answer.content.decode()
    assert clerk.post(page(model, "change", row.pk), {"input": "9", "multiplier": "9"}).status_code == 403


# ---- preview


def preview(client, row, **values):
    return client.get(page(type(row), "preview", row.pk), values)


def test_the_preview_reckons_as_a_request_would(clerk):
    row = a_price(parts=PriceParts(input=Decimal("2.5"), cached_input=Decimal("1.25"), output=Decimal(10)))
    values = {"input": "2006", "cached_input": "1920", "output": "300", "multiplier": "1.5"}
    answer = preview(clerk, row, **values)
    text = answer.content.decode()
    assert "<span data-amount>0.0084225</span>" in text  # 0.005615 × 1.5
    lines = answer.context["cost"]["lines"]
    assert [(line["part"], line["count"], line["subtotal"]) for line in lines] == [
        ("input", 86, "0.000215"),
        ("cached_input", 1920, "0.0024"),
        ("output", 300, "0.003"),
    ]
    assert answer.context["cost"]["sum"] == "0.005615"
    assert Price.objects.get() == row


def test_the_preview_takes_pictures(clerk):
    row = a_price(parts=PriceParts(), image_rates={"1024x1024/high": Decimal("0.167")})
    answer = preview(clerk, row, images="2", size="1024x1024", quality="high", multiplier="1")
    assert answer.context["cost"]["amount"] == "0.334"


def test_the_preview_begins_with_the_groups_multiplier(clerk):
    group_multiplier_set(group="vip", multiplier=Decimal("0.80"), effective_from=NEW_YEAR)
    group_multiplier_set(
        group="vip", multiplier=Decimal(9), effective_from=timezone.now() + datetime.timedelta(days=1)
    )
    for group, shown in (("vip", "0.8"), ("", "1"), ("other", "1")):
        answer = preview(clerk, a_price(group=group))
        assert answer.context["form"]["multiplier"].value() == shown
        assert answer.context["cost"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("input", "-1"), ("input", "x"), ("input", "10" * 20), ("multiplier", "-1"), ("multiplier", "")],
)
def test_the_preview_tells_bad_numbers_at_their_field(clerk, name, value):
    answer = preview(clerk, a_price(), **({"input": "1", "multiplier": "1"} | {name: value}))
    assert answer.status_code == 200
    assert list(answer.context["form"].errors) == [name]
    assert answer.context["cost"] is None


def test_the_preview_works_on_closed_rows_and_cost_prices(clerk):
    row = a_price()
    price_close(price=row)
    assert preview(clerk, row, input="1000000", multiplier="1").context["cost"]["amount"] == "2.50"
    cost = cost_price_set(
        channel_id=a_channel().pk, model="m", parts=PriceParts(input=Decimal(4)), effective_from=NEW_YEAR
    ).cost_price
    assert preview(clerk, cost, input="1000000", multiplier="1").context["cost"]["amount"] == "4.00"


def test_the_preview_of_no_price_leads_back(clerk):
    for pk in ("999", "x"):
        assert clerk.get(page(Price, "preview", pk)).status_code == 302


@pytest.mark.parametrize(
    ("role", "status"), [(Role.BILLING, 200), (Role.OPERATOR, 200), (Role.VIEWER, 403), (None, 403)]
)
def test_who_may_see_a_preview(client, role, status):
    row = a_price()
    client.force_login(a_staff_user(role and role.value), backend="django.contrib.auth.backends.ModelBackend")
    assert preview(client, row).status_code == status


def test_strangers_see_no_preview(client):
    row = a_price()
    assert preview(client, row).status_code == 302
    client.force_login(User.objects.create(username="outsider"))
    assert preview(client, row).status_code == 302


# ---- in use without a price


def served(model, tenant, *, requests=3, channel_id=1, days_ago=1):
    UsageDaily.objects.create(
        day=(timezone.now() - datetime.timedelta(days=days_ago)).date(),
        tenant_id=tenant.pk,
        api_key_id=1,
        model=model,
        channel_id=channel_id,
        requests=requests,
        successes=requests - 1 if channel_id else 0,
        incomplete=1 if channel_id else 0,
    )


def test_what_channels_serve_without_a_price_is_found():
    a_price(model="priced")
    a_price(model="for-vip", group="vip")
    a_price(model="later", effective_from=timezone.now() + datetime.timedelta(days=1))
    a_channel(
        models=["priced", "for-vip", "bare", "pattern-*"],
        model_mapping={"alias": "sent", "priced": "x"},
        groups=["default", "vip"],
    )
    a_channel(models=["later"], groups=["vip"])
    off = a_channel(models=["off"], groups=["vip"])
    channel_set_status(channel_id=off.pk, status=RouteStatus.DISABLED)
    assert unpriced_models(timezone.now()) == (
        UnpricedModel("alias", ("default", "vip"), 0),
        UnpricedModel("bare", ("default", "vip"), 0),
        UnpricedModel("for-vip", ("default",), 0),
        UnpricedModel("later", ("vip",), 0),
    )
    a_price(model="*")
    assert unpriced_models(timezone.now()) == ()


def test_what_was_served_lately_without_a_price_is_found():
    a_channel(models=["*"], groups=["default", "vip"])
    a_price(model="priced")
    vip, other = a_tenant(group="vip"), a_tenant(group="default")
    served("served", vip)
    served("served", other, requests=4)
    served("served", other, requests=5, days_ago=2)
    served("priced", vip)
    served("refused", vip, channel_id=0)
    served("long-ago", vip, days_ago=40)
    served("", vip)
    assert unpriced_models(timezone.now()) == (UnpricedModel("served", ("default", "vip"), 12),)


def test_the_list_of_prices_shows_what_has_none(clerk):
    assert "In use without a price" not in clerk.get(page(Price)).content.decode()
    a_channel(models=[f"bare-{number:02}" for number in range(35)], groups=["vip"])
    text = clerk.get(page(Price)).content.decode()
    assert "In use without a price" in text
    assert "bare-29" in text
    assert "bare-30" not in text
    assert "and 5 more" in text
