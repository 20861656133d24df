"""Tenants, keys and channels of a generated database, numbered from 1 in the staging table's words."""

import datetime
from decimal import Decimal

from django.db import connection

from billing.core.prices import PriceParts
from billing.models import Account
from billing.services.prices import price_set
from channels_admin.models import ApiKey, Channel, Tenant
from tests.scale.generate import Size

ALWAYS = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def configured_make(size: Size) -> None:
    """Rows that the drafts point at by number: `scale_key` and `scale_channel` say which id that is."""
    tenants = Tenant.objects.bulk_create(
        Tenant(name=f"scale-tenant-{number:04}") for number in range(size.tenants)
    )
    Account.objects.bulk_create(Account(tenant=tenant) for tenant in tenants)
    keys = ApiKey.objects.bulk_create(
        ApiKey(
            tenant=tenants[number % size.tenants],
            name=f"scale-key-{number:04}",
            digest=f"{number:064x}",
            prefix=f"sk-{number:05}",
        )
        for number in range(size.keys)
    )
    channels = Channel.objects.bulk_create(
        Channel(name=f"scale-channel-{number:03}", base_url="https://api.example.com", models=["*"])
        for number in range(size.channels)
    )
    for number in range(size.models):
        price_set(
            model=f"model-{number:02}",
            group="",
            effective_from=ALWAYS,
            parts=PriceParts(input=Decimal(1), output=Decimal(4)),
        )
    accounts = dict(Account.objects.values_list("tenant_id", "pk"))
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS scale_key, scale_channel")
        cursor.execute(
            "CREATE UNLOGGED TABLE scale_key (number int, key_id bigint, tenant_id bigint, account_id bigint)"
        )
        cursor.execute("CREATE UNLOGGED TABLE scale_channel (number int, channel_id bigint)")
        cursor.executemany(
            "INSERT INTO scale_key VALUES (%s, %s, %s, %s)",
            [(n, key.pk, key.tenant_id, accounts[key.tenant_id]) for n, key in enumerate(keys)],
        )
        cursor.executemany(
            "INSERT INTO scale_channel VALUES (%s, %s)", [(n, row.pk) for n, row in enumerate(channels)]
        )
