"""Balances and prices for tests, made through the services."""

import datetime
from decimal import Decimal
from typing import Any

from billing.core.prices import PriceParts
from billing.models import Account, Price
from billing.services.ledger import account_open
from billing.services.prices import price_set
from channels_admin.models import Tenant
from tests.factories.channels import a_tenant

ALWAYS = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
IN_NANO, OUT_NANO = 1_000, 2_000
"""A token's price, nano-USD, as `a_price` has it by default."""


def funded(tenant: Tenant, usd: str = "100") -> Account:
    """The tenant's account with so much on it."""
    return account_open(tenant=tenant, balance_usd=Decimal(usd)).account


def a_price(model: str = "*", *, group: str = "", **parts: str) -> Price:
    """parts: USD as text, by default 1 for a million tokens of input and 2 of output."""
    given = {name: Decimal(usd) for name, usd in (parts or {"input": "1", "output": "2"}).items()}
    return price_set(model=model, group=group, effective_from=ALWAYS, parts=PriceParts(**given)).price


def a_funded_tenant(usd: str = "100", **fields: Any) -> Tenant:
    tenant = a_tenant(**fields)
    funded(tenant, usd)
    return tenant
