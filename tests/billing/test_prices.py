"""Prices: immutable rows, set idempotently, loaded by version."""

import dataclasses
import datetime
from decimal import Decimal

import pytest
from django.core.exceptions import ValidationError

from billing.core.prices import PriceParts
from billing.models import Price
from billing.selectors.prices import load_prices
from billing.services.prices import price_close, price_set
from channels_admin.selectors import config_version
from channels_admin.services import configuration_change
from channels_admin.snapshots import load_section
from gateway.config import ConfigSnapshot

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
    assert ConfigSnapshot(load_section(None), load_prices(None)).priced_models == {"named"}
