"""No list and no report looks through a big table: each statement's plan on 50,000 requests says how many rows
it looked at. Times of 10,000,000 stand in docs/scale.md.
"""

import json

import pytest
from django.db import connection

from billing.models.relay_requests import SUCCESSFUL_REASONS
from billing.services.usage_slices import usage_slices_build
from relay.core.end_reasons import SUCCESSFUL
from tests.scale.generate import Size, generate
from tests.scale.measure import Heard, client
from tests.scale.pages import pages

REQUESTS = 50_000
LOOKED_AT_MAX = 20_000
"""Rows of one big table in one statement. The most is 5,000 requests of which every third is wanted."""
BIG = {
    "billing_relayrequest",
    "billing_attempt",
    "billing_usagerecord",
    "billing_ledgerentry",
    "billing_usagedaily",
    "billing_usagehourly",
}


def test_successful_reasons_of_the_index_are_those_of_the_filter():
    assert set(SUCCESSFUL_REASONS) == {reason.value for reason in SUCCESSFUL}


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.django_db
@pytest.mark.filterwarnings("ignore:No directory at:UserWarning")
def test_no_page_looks_through_a_big_table():
    if connection.vendor != "postgresql":
        pytest.skip("plans are PostgreSQL's: set DATABASE_URL")
    generate(Size(requests=REQUESTS, days=30))
    usage_slices_build(budget_s=120)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        # What pays for so few rows only: in a plan it means then that there is no other way.
        for way in ("seqscan", "hashjoin", "mergejoin"):
            cursor.execute(f"SET LOCAL enable_{way} = off")
    wrong, count = [], 0
    for page in pages(client()):
        heard = Heard()
        with connection.execute_wrapper(heard):
            page.ask()
        reads = [one for one in heard.statements if one[0].lstrip().startswith("SELECT")]
        count += len(reads)
        wrong.extend(f"{page.name}: {fault}" for sql, params, _ in reads for fault in faults(sql, params))
    assert not wrong, "\n".join(wrong)
    assert count > 300


def test_a_look_through_the_table_is_found():
    """The check itself: a filter that no index answers."""
    plan = {"Node Type": "Index Scan", "Relation Name": "billing_attempt", "Actual Rows": 3,
            "Rows Removed by Filter": 40_000, "Actual Loops": 1}  # fmt: skip
    assert list(plan_faults({"Node Type": "Limit", "Plans": [plan]}))
    assert list(plan_faults(plan | {"Node Type": "Seq Scan", "Rows Removed by Filter": 0}))
    assert not list(plan_faults(plan | {"Rows Removed by Filter": 10}))


def faults(sql, params):
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
        found = cursor.fetchone()[0]
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return [f"{fault} in {sql[:300]}" for fault in plan_faults(plan)]


def plan_faults(node):
    table = node.get("Relation Name")
    if table in BIG:
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        looked_at = rows * node["Actual Loops"]
        if looked_at > LOOKED_AT_MAX:
            yield f"{looked_at} rows of {table} looked at"
        if node["Node Type"] == "Seq Scan":
            yield f"{table} is read from its beginning"
    for child in node.get("Plans", ()):
        yield from plan_faults(child)
