"""Prices: immutable rows, set idempotently, loaded by version."""

import dataclasses
import datetime
from decimal import Decimal

import pytest
from django.core.exceptions import ValidationError

from billing.core.prices import PriceParts, Tier
from billing.models import GroupMultiplier, Price
from billing.selectors.prices import load_prices, multiplier_by_id, price_by_id
from billing.services.prices import (
    cost_price_close,
    cost_price_set,
    group_multiplier_close,
    group_multiplier_set,
    price_close,
    price_set,
)
from channels_admin.selectors import config_version
from channels_admin.services import configuration_change
from channels_admin.snapshots import load_section
from gateway.config import ConfigSnapshot
from tests.factories.channels import a_channel

pytestmark = pytest.mark.django_db

NEW_YEAR = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
CHEAP = PriceParts(input=Decimal("0.15"), output=Decimal("0.6"))
DEAR = PriceParts(input=Decimal("0.15"), output=Decimal("0.75"), cached_input=Decimal("0.075"))


def set_price(model="gpt-4o", parts=CHEAP, **fields):
    return price_set(
        model=model, parts=parts, effective_from=fields.pop("effective_from", NEW_YEAR), **fields
    )


def test_a_new_price_bumps_the_version_and_carries_it():
    before = config_version()
    setting = set_price()
    assert setting.changed
    assert config_version() > before
    assert setting.price.version == config_version()
    row = Price.objects.get()
    assert (row.input, row.output, row.cached_input) == (Decimal("0.15"), Decimal("0.6"), None)


def test_the_same_price_again_changes_nothing():
    first = set_price()
    version = config_version()
    again = set_price(parts=PriceParts(input=Decimal("0.1500"), output=Decimal("0.60")))
    assert not again.changed
    assert again.price.pk == first.price.pk
    assert config_version() == version


def test_another_value_closes_the_row_and_makes_a_new_one():
    old = set_price().price
    new = set_price(parts=DEAR).price
    old.refresh_from_db()
    assert old.is_closed
    assert old.effective_to is not None
    assert (old.output, new.output) == (Decimal("0.6"), Decimal("0.75"))
    assert old.version == new.version == config_version()
    assert list(Price.objects.filter(is_closed=False)) == [new]


@pytest.mark.parametrize(
    "other",
    [{"model": "gpt-4o-mini"}, {"group": "vip"}, {"effective_from": NEW_YEAR + datetime.timedelta(days=1)}],
    ids=["model", "group", "from"],
)
def test_identity_is_model_group_and_start(other):
    set_price()
    set_price(**other)
    assert Price.objects.filter(is_closed=False).count() == 2


@pytest.mark.parametrize(
    ("model", "parts"),
    [("", CHEAP), ("m", PriceParts(input=Decimal(-1))), ("m", PriceParts(input=Decimal("1e9")))],
    ids=["no name", "negative", "too large"],
)
def test_bad_prices_are_refused_and_leave_no_trace(model, parts):
    version = config_version()
    with pytest.raises(ValidationError):
        set_price(model=model, parts=parts)
    assert Price.objects.count() == 0
    assert config_version() == version


def test_closing_twice_keeps_the_first_time():
    price = set_price().price
    price_close(price=price)
    price.refresh_from_db()
    closed_at = price.effective_to
    price_close(price=price)
    price.refresh_from_db()
    assert price.effective_to == closed_at


@pytest.mark.parametrize("text", ["0.000000001", "999999.999999999", "2.5", "0.075"])
def test_decimals_survive_the_database(text):
    price = set_price(parts=PriceParts(input=Decimal(text))).price
    price.refresh_from_db()
    assert price.input == Decimal(text)


# ---- loading


def test_the_section_holds_open_rows():
    kept, closed = set_price().price, set_price("other").price
    price_close(price=closed)
    section = load_prices(None)
    assert section.version == config_version()
    assert [(row.id, row.model, row.parts) for row in section.rows.values()] == [(kept.pk, "gpt-4o", CHEAP)]


def test_an_unchanged_version_gives_the_same_object(django_assert_num_queries):
    set_price()
    section = load_prices(None)
    with django_assert_num_queries(1):
        assert load_prices(section) is section


def test_a_change_elsewhere_keeps_the_rows():
    set_price()
    section = load_prices(None)
    with configuration_change():
        pass
    later = load_prices(section)
    assert later.version == section.version + 1
    assert later.rows is section.rows


def test_only_changed_rows_are_made_anew():
    set_price("a")
    set_price("b")
    section = load_prices(None)
    set_price("b", DEAR)
    set_price("c")
    later = load_prices(section)
    by_model = {row.model: row for row in later.rows.values()}
    assert set(by_model) == {"a", "b", "c"}
    assert by_model["a"] is next(row for row in section.rows.values() if row.model == "a")
    assert by_model["b"].parts == DEAR


def test_a_closed_row_leaves_the_section():
    price = set_price().price
    section = load_prices(None)
    price_close(price=price)
    assert load_prices(section).rows == {}


def test_an_older_database_is_loaded_whole():
    set_price()
    section = load_prices(None)
    Price.objects.all().delete()
    assert load_prices(dataclasses.replace(section, version=section.version + 5)).rows == {}


def test_models_that_show_as_priced_are_names_in_effect():
    set_price("named")
    set_price("named", group="vip")
    set_price("pattern-*")
    set_price("later", effective_from=datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1))
    price_close(price=set_price("closed").price)
    snapshot = ConfigSnapshot(load_section(None), load_prices(None))
    assert snapshot.priced_models("any") == {"named"}


# ---- tiers, image rates, cost prices, multipliers

TIERS = (Tier(200_000, PriceParts(input=Decimal("2.5"))), Tier(1_000, PriceParts(output=Decimal(3))))
RATES = {"1024x1024/high": Decimal("0.167")}


def test_tiers_and_image_rates_are_kept_in_one_form():
    price = set_price(tiers=TIERS, image_rates=RATES).price
    price.refresh_from_db()
    assert price.tiers == [
        {"above_input_tokens": 1000, "output": "3"},
        {"above_input_tokens": 200000, "input": "2.5"},
    ]
    assert price.image_rates == {"1024x1024/high": "0.167"}
    assert not set_price(tiers=TIERS[::-1], image_rates=RATES).changed
    assert set_price(tiers=TIERS[:1], image_rates=RATES).changed
    assert set_price(tiers=TIERS[:1]).changed
    assert Price.objects.filter(is_closed=False).count() == 1


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("tiers", {}, "JSON list is expected"),
        ("tiers", [1], "tier 1: an object is expected"),
        ("tiers", [{"above_input_tokens": 5}], "tier 1: at least one price is expected"),
        ("tiers", [{"above_input_tokens": 0, "input": "1"}], "tier 1: above_input_tokens must be"),
        ("tiers", [{"above_input_tokens": True, "input": "1"}], "tier 1: above_input_tokens must be"),
        ("tiers", [{"above_input_tokens": 1.5, "input": "1"}], "tier 1: above_input_tokens must be"),
        ("tiers", [{"above_input_tokens": 5, "per_call": "1"}], "tier 1: “per_call” is none of"),
        ("tiers", [{"above_input_tokens": 5, "input": "-1"}], "tier 1, input: an amount from 0"),
        ("tiers", [{"above_input_tokens": 5, "input": "1000000"}], "tier 1, input: an amount from 0"),
        ("tiers", [{"above_input_tokens": 5, "input": "NaN"}], "tier 1, input: an amount from 0"),
        ("tiers", [{"above_input_tokens": 5, "input": "x"}], "tier 1, input: an amount in USD"),
        ("tiers", [{"above_input_tokens": 5, "input": True}], "tier 1, input: an amount in USD"),
        ("tiers", [{"above_input_tokens": 5, "input": None}], "tier 1, input: an amount in USD"),
        ("tiers", [{"above_input_tokens": 5, "input": "0.0000000001"}], "tier 1, input: at most 9 decimals"),
        ("tiers", [{"above_input_tokens": 5, "input": "1"}] * 2, "two tiers begin above 5"),
        ("tiers", [{"above_input_tokens": at, "input": "1"} for at in range(1, 22)], "at most 20 tiers"),
        ("image_rates", [], "JSON object is expected"),
        ("image_rates", {"a/b/c": "1"}, "“a/b/c” is no size/quality"),
        ("image_rates", {"": "1"}, "“” is no size/quality"),
        ("image_rates", {"a b": "1"}, "“a b” is no size/quality"),
        ("image_rates", {"High": "1", "high": "2"}, "“high” is there twice"),
        ("image_rates", {"high": "x"}, "“high”: an amount in USD"),
        ("image_rates", {"x" * 65: "1"}, "is longer than 64 letters"),
        ("image_rates", {f"q{at}": "1" for at in range(201)}, "at most 200 rates"),
    ],
)
def test_bad_json_is_told_at_its_field(field, value, told):
    row = Price(model="m", effective_from=NEW_YEAR, **{field: value})
    with pytest.raises(ValidationError) as error:
        row.full_clean()
    assert list(error.value.message_dict) == [field]
    assert told in error.value.message_dict[field][0]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"model": "a b"}, "model"),
        ({"model": "a**"}, "model"),
        ({"group": "a b"}, "group"),
        ({"group": "*"}, "group"),
    ],
)
def test_what_a_price_is_for_is_judged(fields, field):
    with pytest.raises(ValidationError) as error:
        set_price(**fields)
    assert list(error.value.message_dict) == [field]


@pytest.fixture
def channel():
    return a_channel()


def set_cost(channel, parts=CHEAP, **fields):
    return cost_price_set(
        channel_id=channel.pk,
        model=fields.pop("model", "sent"),
        parts=parts,
        effective_from=fields.pop("effective_from", NEW_YEAR),
        **fields,
    )


def set_multiplier(multiplier="1.25", group="vip", **fields):
    return group_multiplier_set(
        group=group, multiplier=Decimal(multiplier), effective_from=fields.pop("effective_from", NEW_YEAR)
    )


def test_cost_prices_are_set_like_prices(channel):
    old = set_cost(channel).cost_price
    version = config_version()
    assert old.version == version
    assert not set_cost(channel).changed
    assert config_version() == version
    new = set_cost(channel, DEAR, tiers=TIERS).cost_price
    old.refresh_from_db()
    assert old.is_closed
    assert old.effective_to is not None
    assert set_cost(a_channel(), DEAR).changed, "another channel, another price"
    cost_price_close(cost_price=new)
    new.refresh_from_db()
    assert new.is_closed


def test_multipliers_are_set_like_prices():
    old = set_multiplier().multiplier
    assert not set_multiplier("1.250000").changed
    new = set_multiplier("0").multiplier
    old.refresh_from_db()
    assert old.is_closed
    assert list(GroupMultiplier.objects.filter(is_closed=False)) == [new]
    group_multiplier_close(multiplier=new)
    assert not GroupMultiplier.objects.filter(is_closed=False).exists()


@pytest.mark.parametrize(
    ("multiplier", "group"), [("-1", "vip"), ("1.2345678", "vip"), ("1", ""), ("1", "a b")]
)
def test_bad_multipliers_are_refused(multiplier, group):
    with pytest.raises(ValidationError):
        set_multiplier(multiplier, group)
    assert not GroupMultiplier.objects.exists()


def test_the_book_of_a_section_finds_what_is_open(channel):
    price = set_price(tiers=TIERS, image_rates=RATES).price
    cost = set_cost(channel, tiers=TIERS).cost_price
    multiplier = set_multiplier().multiplier
    section = load_prices(None)
    now = NEW_YEAR + datetime.timedelta(days=1)
    found = section.book.price("gpt-4o", "any", now)
    assert found is section.rows[price.pk]
    assert set(found.tiers) == set(TIERS)
    assert found.image_rates == RATES
    assert section.book.cost_price(channel.pk, "sent", now) is section.cost_rows[cost.pk]
    assert section.book.multiplier("vip", now) is section.multipliers[multiplier.pk]


@pytest.mark.parametrize("what", ["price", "cost", "multiplier"])
def test_each_kind_of_row_renews_the_book_by_itself(channel, what):
    set_price()
    set_cost(channel)
    set_multiplier()
    section = load_prices(None)
    with configuration_change():
        pass
    assert load_prices(section).book is section.book, "nothing that it holds was changed"
    if what == "price":
        set_price(parts=DEAR)
    elif what == "cost":
        set_cost(channel, DEAR)
    else:
        set_multiplier("3")
    later = load_prices(section)
    now = NEW_YEAR + datetime.timedelta(days=1)
    assert (
        later.book.price("gpt-4o", "", now).parts == DEAR,
        later.book.cost_price(channel.pk, "sent", now).parts == DEAR,
        later.book.multiplier("vip", now).multiplier == 3,
    ) == (what == "price", what == "cost", what == "multiplier")
    assert (later.rows is section.rows) is (what != "price")
    assert (later.cost_rows is section.cost_rows) is (what != "cost")


def test_a_closed_cost_price_and_multiplier_leave_the_section(channel):
    cost, multiplier = set_cost(channel).cost_price, set_multiplier().multiplier
    section = load_prices(None)
    cost_price_close(cost_price=cost)
    group_multiplier_close(multiplier=multiplier)
    later = load_prices(section)
    assert (later.cost_rows, later.multipliers) == ({}, {})
    assert later.book.multiplier("vip", NEW_YEAR) is None


def test_a_request_of_the_past_finds_the_rows_it_was_admitted_under():
    price, multiplier = set_price().price, set_multiplier().multiplier
    price_close(price=price)
    group_multiplier_close(multiplier=multiplier)
    assert price_by_id(price.pk).parts == CHEAP
    assert multiplier_by_id(multiplier.pk).multiplier == Decimal("1.25")
    assert price_by_id(price.pk + 1) is None
    assert multiplier_by_id(multiplier.pk + 1) is None
