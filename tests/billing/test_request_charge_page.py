"""“Why this amount?” on a request's page: the numbers of the charge, the ledger's entries, and who sees them."""

import datetime
from decimal import Decimal

import pytest
from django.urls import reverse

from billing.core.prices import PriceParts
from billing.core.pricing import cost_of
from billing.models import RelayRequest
from billing.selectors.explained_charges import explained_charge
from billing.selectors.prices import price_by_id
from billing.services.ledger import account_refund
from billing.services.prices import price_set
from billing.services.requests import requests_record
from relay.core.end_reasons import EndReason
from relay.core.usage import TokenUsage
from tests.factories.billing import attempt_make, outcome_make, owner_make, settlement_make
from tests.factories.channels import a_staff_user

pytestmark = pytest.mark.django_db

NEW_YEAR = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PARTS = PriceParts(
    input=Decimal("2.5"), cached_input=Decimal("1.25"), output=Decimal(10), per_call=Decimal("0.01")
)


@pytest.fixture(autouse=True)
def pages_only(settings):
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if "whitenoise" not in name]


def a_price(parts=PARTS, **fields):
    return price_set(model="gpt-4o", parts=parts, effective_from=NEW_YEAR, **fields).price


def recorded(owner, price, **overrides):
    """The row of a request that was charged what its price says."""
    outcome = outcome_make(owner, **overrides.pop("outcome", {}))
    terms = price_by_id(price.pk) if price else None
    asked = overrides.pop("asked", {})
    amount = cost_of(outcome.usage, terms, **asked).amount_nano if terms else 0
    fields = {"amount_nano": amount, "price_id": price.pk if price else None, **overrides}
    requests_record([settlement_make(outcome=outcome, **fields)])
    return RelayRequest.objects.get(pk=outcome.request_id)


def page(client, row, role="billing"):
    client.force_login(a_staff_user(role), backend="django.contrib.auth.backends.ModelBackend")
    return client.get(reverse("admin:billing_relayrequest_change", args=[row.pk]))


def test_the_formula_is_shown_with_its_numbers(client):
    row = recorded(owner_make(), a_price())
    answer = page(client, row)
    # 60 of 100 tokens at 2.5, 40 cached at 1.25, 20 at 10 USD per million, and the call.
    assert row.cost_nano == 60 * 2_500 + 40 * 1_250 + 20 * 10_000 + 10_000_000
    shown = {line["part"]: (line["count"], line["unit"]) for line in answer.context["cost"]["lines"]}
    assert shown["input"] == (60, "2.5")
    assert shown["cached_input"] == (40, "1.25")
    assert shown["per_call"] == (1, "0.01")
    assert answer.context["cost"]["amount"] == answer.context["charged"] == "0.0104"
    assert answer.context["is_same"] is True
    text = answer.content.decode()
    assert "Why this amount?" in text
    assert "0.0104 USD" in text


def test_a_price_that_changed_since_does_not_change_the_reason(client):
    price = a_price()
    row = recorded(owner_make(), price)
    a_price(PriceParts(input=Decimal(99)))
    answer = page(client, row)
    assert answer.context["cost"]["amount"] == "0.0104"
    assert answer.context["price_url"] == reverse("admin:billing_price_change", args=[price.pk])


def test_entries_are_listed_in_their_order(client):
    row = recorded(owner_make(), a_price())
    account_refund(request_id=row.pk, operation="r-1", reason="goodwill", actor="ada", amount_nano=400)
    recorded(owner_make(), a_price())  # another's
    answer = page(client, row)
    assert [(line.kind, line.amount, line.reason) for line in answer.context["entries"]] == [
        ("charge", "-0.0104", ""),
        ("refund", "0.0000004", "goodwill"),
    ]


@pytest.mark.parametrize(
    ("role", "prices", "entries"),
    [("superuser", True, True), ("billing", True, True), ("operator", True, False)],
)
def test_each_role_sees_what_its_own_pages_show(client, role, prices, entries):
    row = recorded(owner_make(), a_price())
    answer = page(client, row, role)
    assert (answer.context["cost"] is not None) == prices
    assert ("Ledger entries" in answer.content.decode()) == entries
    assert bool(answer.context["entries"]) == entries


def test_viewers_see_no_request_at_all(client):
    assert page(client, recorded(owner_make(), a_price()), "viewer").status_code == 403


def test_without_a_price_it_says_so(client):
    answer = page(client, recorded(owner_make(), None))
    assert "No price was in force" in str(answer.context["charge_reason"])
    assert answer.context["cost"] is None
    assert answer.context["is_same"] is True


def test_nothing_answered_is_nothing_charged(client):
    owner = owner_make()
    attempt = attempt_make(channel_id=owner.channel.pk, committed=False, usage=None)
    outcome = {"usage": None, "attempts": (attempt,), "end_reason": EndReason.CONNECT_FAILED}
    row = recorded(owner, a_price(), outcome=outcome, amount_nano=0)
    answer = page(client, row)
    assert "not even the call" in str(answer.context["charge_reason"])
    assert answer.context["is_same"] is True


def test_an_estimate_says_so(client):
    row = recorded(owner_make(), a_price(), usage_source="estimated", usage_method="o200k")
    assert row.estimated
    assert "counted from what arrived" in str(page(client, row).context["charge_reason"])


def test_a_picture_is_explained_by_the_rate_that_was_used(client):
    rates = {"1024x1024/high": Decimal("0.167"), "1024x1024/low": Decimal("0.011"), "high": Decimal("0.2")}
    price = a_price(PriceParts(per_image=Decimal("0.04")), image_rates=rates)
    owner = owner_make()
    for size, quality, source in (
        ("1024x1024", "low", "image_rates 1024x1024/low"),
        ("1024X1024", "HIGH", "image_rates 1024x1024/high"),
        ("512x512", "high", "image_rates high"),
        ("512x512", "low", "per_image"),
    ):
        outcome = {"usage": TokenUsage(images=2), "family": "images"}
        row = recorded(owner, price, outcome=outcome, asked={"size": size, "quality": quality})
        explained = explained_charge(row)
        assert explained.is_same
        (line,) = explained.cost.lines
        assert line.unit.source.startswith(source)


def test_a_charge_that_is_not_what_the_price_gives_is_told(client):
    row = recorded(owner_make(), a_price(), amount_nano=7)
    answer = page(client, row)
    assert answer.context["is_same"] is False
    assert "is not what was charged" in answer.content.decode()


def test_what_attempts_cost_the_operator_is_shown(client):
    row = recorded(owner_make(), a_price(), operator_costs_nano={1: 1_230_000})
    text = page(client, row).content.decode()
    assert row.operator_cost_nano == 1_230_000
    assert text.count("0.00123") == 2, "of the request and of its attempt"
