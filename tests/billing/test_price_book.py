"""Which price a request has: names before patterns, groups, dates, paths; and that the memory never lies."""

import datetime
from decimal import Decimal
from itertools import count

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from billing.core import price_book
from billing.core.price_book import PriceBook
from billing.core.prices import CostPriceRow, MultiplierRow, PriceParts, PriceRow
from relay.core.selection import matches

DAY = datetime.timedelta(days=1)
NOW = datetime.datetime(2026, 6, 1, 12, tzinfo=datetime.UTC)
_ids = count(1)
# A busy machine is no failure.
steady = hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def row(model, group="", begins=NOW - 100 * DAY, usd=1):
    return PriceRow(
        id=next(_ids),
        model=model,
        group=group,
        effective_from=begins,
        parts=PriceParts(input=Decimal(usd)),
    )


def found(rows, model, group="default", now=NOW, path=""):
    price = PriceBook(rows).price(model, group, now, path=path)
    return None if price is None else (price.model, price.group)


LOOKUPS = [
    # rows in force, model, group → the row
    (["gpt-4o"], "gpt-4o", "default", ("gpt-4o", "")),
    (["gpt-4o"], "gpt-4o-mini", "default", None),
    ([], "gpt-4o", "default", None),
    (["gpt-*", "gpt-4o"], "gpt-4o", "default", ("gpt-4o", "")),
    (["gpt-*", "gpt-4o*", "*"], "gpt-4o-mini", "default", ("gpt-4o*", "")),
    (["*", "*-mini", "gpt*"], "gpt-4o-mini", "default", ("*-mini", "")),
    # A star counts for nothing: five letters against four.
    (["gpt-*-mini", "gpt-4o*"], "gpt-4o-mini", "default", ("gpt-*-mini", "")),
    (["*"], "anything/at:all", "default", ("*", "")),
    (["g*p*t*", "gpt-*"], "gpt-4o", "default", ("gpt-*", "")),
    # Somebody may ask for a pattern by its own text.
    (["gpt-4*", "gpt-4o*"], "gpt-4*", "default", ("gpt-4*", "")),
    (["GPT-4o"], "gpt-4o", "default", None),
    # Groups under one name; the name comes first.
    (["m", ("m", "vip")], "m", "vip", ("m", "vip")),
    (["m", ("m", "vip")], "m", "default", ("m", "")),
    ([("m", "vip")], "m", "default", None),
    ([("*", "vip"), "m"], "m", "vip", ("m", "")),
    ([("m*", "vip"), "m*"], "mm", "vip", ("m*", "vip")),
    ([("m", "vip"), "*"], "m", "default", ("*", "")),
    # A tenant without group has the prices of all groups.
    ([("m", "vip"), "m"], "m", "", ("m", "")),
    # Paths are no models, and models no paths.
    (["/v1/rerank"], "/v1/rerank", "default", None),
    (["/v1/*", "*"], "/v1/rerank", "default", ("*", "")),
]


@pytest.mark.parametrize(("rows", "model", "group", "wanted"), LOOKUPS)
def test_which_row_counts(rows, model, group, wanted):
    made = [row(entry) if isinstance(entry, str) else row(*entry) for entry in rows]
    assert found(made, model, group) == wanted
    assert found(made[::-1], model, group) == wanted, "whatever the order of the rows"


PATHS = [
    (["/v1/rerank"], "/v1/rerank", ("/v1/rerank", "")),
    (["/v1/*"], "/v1/rerank", ("/v1/*", "")),
    (["/v1/*", "/v1/rer*"], "/v1/rerank", ("/v1/rer*", "")),
    (["/v1/*", ("/v1/*", "vip")], "/v1/rerank", ("/v1/*", "vip")),
    (["*"], "/v1/rerank", None),
    (["/v2/*"], "/v1/rerank", None),
    (["m"], "", None),
]


@pytest.mark.parametrize(("rows", "path", "wanted"), PATHS)
def test_a_request_without_a_model_is_priced_by_its_path(rows, path, wanted):
    made = [row(entry) if isinstance(entry, str) else row(*entry) for entry in rows]
    assert found(made, "", "vip", path=path) == wanted
    assert found(made, "other", "vip", path=path) != wanted or wanted is None


def test_paths_are_remembered_apart():
    book = PriceBook([row("/v1/a"), row("/v1/b")])
    for path in ("/v1/a", "/v1/b", "/v1/a"):
        assert book.price("", "g", NOW, path=path).model == path


def test_the_row_that_began_last_counts():
    rows = [row("m", begins=NOW + shift * DAY, usd=shift + 10) for shift in (-1, -5, -3, 1, 9)]
    book = PriceBook(rows)
    seen = [
        price and int(price.parts.input)
        for price in (
            book.price("m", "g", NOW + shift)
            for shift in (-6 * DAY, -5 * DAY, -2 * DAY, 0 * DAY, DAY - DAY / 1000, DAY, 20 * DAY)
        )
    ]
    assert seen == [None, 5, 7, 9, 9, 11, 19]


def test_what_has_not_begun_hides_nothing():
    rows = [row("m", begins=NOW + DAY), row("m*", begins=NOW + DAY), row("*"), row("m", "vip", NOW + DAY)]
    book = PriceBook(rows)
    assert book.price("m", "vip", NOW).model == "*"
    assert book.price("m", "vip", NOW + DAY).group == "vip"
    assert book.price("m", "other", NOW + DAY).model == "m"


def test_the_memory_follows_the_clock_both_ways():
    """The same question before and after a start, and before it again."""
    book = PriceBook([row("m", begins=NOW - DAY, usd=1), row("m", begins=NOW, usd=2)])
    early, late = NOW - datetime.timedelta(microseconds=1), NOW
    asked = (early, late, early, late, NOW - 2 * DAY, late)
    seen = [price and int(price.parts.input) for price in (book.price("m", "g", at) for at in asked)]
    assert seen == [1, 2, 1, 2, None, 2]


def test_the_same_question_is_looked_up_once(monkeypatch):
    looked = []
    monkeypatch.setattr(price_book, "matches", lambda pattern, name: looked.append(name) or True)
    book = PriceBook([row("*"), row("x", begins=NOW + DAY)])
    for _ in range(3):
        book.price("m", "g", NOW)
    assert looked == ["m"]
    book.price("m", "g", NOW + DAY)
    assert looked == ["m", "m"]


def test_names_of_clients_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(price_book, "_REMEMBERED", 10)
    book = PriceBook([row("*")])
    for number in range(100):
        assert book.price(f"m-{number}", "g", NOW) is not None
    assert len(book._found) <= 10


names = st.sampled_from(["a", "ab", "abc", "*", "a*", "*b", "a*c", "ab*", "/a", "/a*"])
groups = st.sampled_from(["", "g", "h"])
shifts = st.integers(-3, 3)


@steady
@given(
    st.lists(st.tuples(names, groups, shifts), max_size=12, unique=True),
    st.lists(st.tuples(st.sampled_from(["a", "ab", "abc", "zz"]), groups, shifts), min_size=1, max_size=8),
)
def test_the_book_agrees_with_the_rules_as_they_are_written(given_rows, questions):
    rows = [row(model, group, NOW + shift * DAY) for model, group, shift in given_rows]
    book = PriceBook(rows)
    for model, group, shift in questions:
        now = NOW + shift * DAY
        fitting = [
            one
            for one in rows
            if one.effective_from <= now
            and one.group in {"", group}
            and not one.model.startswith("/")
            and matches(one.model, model)
        ]
        wanted = max(
            fitting,
            key=lambda one: (
                "*" not in one.model,
                len(one.model.replace("*", "")),
                [-ord(letter) for letter in one.model],  # two that are alike: the first in the alphabet
                bool(one.group),
                one.effective_from,
            ),
            default=None,
        )
        assert book.price(model, group, now) is wanted


# ---- cost prices, multipliers, names


def test_cost_prices_are_known_by_channel_and_model_sent():
    def cost(channel_id, model, begins=NOW - DAY):
        return CostPriceRow(
            id=next(_ids), channel_id=channel_id, model=model, effective_from=begins, parts=PriceParts()
        )

    rows = [cost(1, "m"), cost(1, "*"), cost(2, "m"), cost(1, "m", NOW), cost(3, "m", NOW + DAY)]
    book = PriceBook(cost_prices=rows)
    assert book.cost_price(1, "m", NOW) is rows[3]
    assert book.cost_price(1, "m", NOW - DAY / 2) is rows[0]
    assert book.cost_price(1, "other", NOW) is rows[1]
    assert book.cost_price(2, "m", NOW) is rows[2]
    assert book.cost_price(2, "other", NOW) is None
    assert book.cost_price(3, "m", NOW) is None
    assert book.cost_price(12, "m", NOW) is None


def test_multipliers_are_known_by_group():
    rows = [
        MultiplierRow(id=1, group="vip", effective_from=NOW - DAY, multiplier=Decimal("0.5")),
        MultiplierRow(id=2, group="vip", effective_from=NOW + DAY, multiplier=Decimal(2)),
    ]
    book = PriceBook(multipliers=rows)
    assert book.multiplier("vip", NOW) is rows[0]
    assert book.multiplier("vip", NOW + DAY) is rows[1]
    assert book.multiplier("vip", NOW - 2 * DAY) is None
    assert book.multiplier("other", NOW) is None


def test_priced_names_are_neither_patterns_nor_paths_nor_later():
    rows = [row("a"), row("b", "vip"), row("c*"), row("/d"), row("e", begins=NOW + DAY), row("a", "vip")]
    assert PriceBook(rows).priced_names("vip", NOW) == {"a", "b"}
    assert PriceBook(rows).priced_names("other", NOW) == {"a"}
    assert PriceBook(rows).priced_names("", NOW + DAY) == {"a", "e"}
