"""The statements that turn drafts into rows. Skewed as traffic is: the busiest key sends a tenth of all, and
a key uses eight models, a model four channels.
"""

from billing.models import Attempt, LedgerEntry, RelayRequest, UsageDaily, UsageHourly, UsageRecord
from tests.scale.generate import BUCKETS, SUCCESSES, Size, insert

_REASONS = """CASE
    WHEN luck < 0.92 THEN 'completed' WHEN luck < 0.95 THEN 'completed_without_terminal'
    WHEN luck < 0.97 THEN 'client_disconnected' WHEN luck < 0.98 THEN 'upstream_rejected'
    WHEN luck < 0.99 THEN 'upstream_reset' WHEN luck < 0.9999 THEN 'idle_timeout'
    WHEN luck < 0.99999 THEN 'ping_failed' ELSE 'abandoned' END"""
_BOUNDS = "ARRAY[50,100,200,300,500,750,1000,1500,2000,3000,5000,10000,30000,60000]"


def drafts(size: Size) -> tuple[str, ...]:
    """`moment` goes up with `i`; `tries`: how many attempts."""
    plain = f"""
        SELECT i, date_trunc('day', now()) + interval '1 day' - interval '{size.days} days'
            + i * (interval '{size.days} days' - (date_trunc('day', now()) + interval '1 day' - now()))
            / {size.requests} AS moment,
            floor({size.keys} * power(random(), 2.5))::int AS key_number,
            random() AS luck, 1 + (random() < 0.12)::int AS tries, 30 * exp(4 * random() * random())
            AS first_event_ms, (50 + 6000 * power(random(), 3))::int AS input,
            (5 + 2000 * power(random(), 2))::int AS output, floor(8 * power(random(), 2))::int AS nth_model,
            floor(4 * power(random(), 2))::int AS nth_channel, random() < 0.03 AS estimated,
            random() < 0.7 AS stream_asked
        FROM generate_series(1, {size.requests}) AS i"""
    known = f"""
        SELECT drafts.*, key_id, tenant_id, account_id, (key_number * 7 + nth_model) % {size.models} AS model_number,
            {_REASONS} AS end_reason, input + 4 * output AS cost
        FROM ({plain}) drafts JOIN scale_key ON number = key_number"""
    placed = f"""
        SELECT known.*, 'model-' || lpad(model_number::text, 2, '0') AS model,
            (model_number * 3 + nth_channel) % {size.channels} AS channel_number,
            (lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || '7'
            || lpad(to_hex(i & 4095), 3, '0') || '8' || substr(md5(i::text), 1, 15))::uuid AS id
        FROM ({known}) known"""
    return (
        "SELECT setseed(0.4)",
        "DROP TABLE IF EXISTS scale_draft",
        f"""CREATE UNLOGGED TABLE scale_draft AS
            SELECT placed.i, id, moment, key_id, tenant_id, account_id, model, tries, first_event_ms, input,
            output, estimated, stream_asked, end_reason, cost * 1000::bigint AS cost_nano,
            main.channel_id, other.channel_id AS other_channel_id,
            width_bucket(first_event_ms, {_BOUNDS}) AS bucket, end_reason IN {SUCCESSES} AS is_success
            FROM ({placed}) placed
            JOIN scale_channel main ON main.number = channel_number
            JOIN scale_channel other ON other.number = (channel_number + 1) % {size.channels} ORDER BY i""",
        "CREATE UNIQUE INDEX ON scale_draft (i)",
        "ANALYZE scale_draft",
    )


def requests() -> str:
    return insert(
        RelayRequest,
        "FROM scale_draft ORDER BY i",
        {
            "id": "id", "tenant_id": "tenant_id", "api_key_id": "key_id", "group": "'default'",
            "method": "'POST'", "path": "'/v1/chat/completions'", "family": "'chat'",
            "dialect": "'openai_chat'", "model_asked": "model", "model_served": "model",
            "model_answered": "model || '-2026-01-01'", "stream_asked": "stream_asked", "status": "200",
            "end_reason": "end_reason", "started_at": "moment", "duration_ms": "first_event_ms * 9",
            "first_event_ms": "first_event_ms", "request_bytes": "input * 4", "response_bytes": "output * 40",
            "message_count": "3",
            "state": "CASE WHEN end_reason = 'abandoned' THEN 'abandoned' ELSE 'final' END",
            "cost_nano": "cost_nano", "operator_cost_nano": "cost_nano / 2", "estimated": "estimated",
            "recorded_at": "moment + interval '2 s'",
        },
    )  # fmt: skip


def attempts() -> tuple[str, str]:
    shared = {
        "request_id": "id", "channel_name": "'scale'", "upstream_key_id": "1",
        "upstream_host": "'api.example.com'", "model_sent": "model", "stream_asked": "stream_asked",
        "stream_sent": "stream_asked", "started_at": "moment", "connect_ms": "2.5", "header_ms": "20",
        "first_byte_ms": "25", "duration_ms": "first_event_ms * 9", "upstream_connected": "true",
    }  # fmt: skip
    last = {
        **shared, "number": "tries", "channel_id": "channel_id", "end_reason": "end_reason", "status": "200",
        "decision": "'first candidate'", "upstream_request_id": "'req_' || substr(md5(i::text), 1, 24)",
        "first_event_ms": "first_event_ms", "last_event_at": "moment", "events": "output",
        "bytes": "output * 40", "finish_reasons": "'[\"stop\"]'::jsonb", "terminal_seen": "is_success",
        "committed": "true", "usage": "jsonb_build_object('input', input, 'output', output)",
        "operator_cost_nano": "cost_nano / 2",
    }  # fmt: skip
    failed = {
        **shared, "number": "1", "channel_id": "other_channel_id", "end_reason": "'upstream_rejected'",
        "status": "503", "decision": "'first candidate'",
    }  # fmt: skip
    return (
        insert(Attempt, "FROM scale_draft ORDER BY i", last),
        insert(Attempt, "FROM scale_draft WHERE tries = 2 ORDER BY i", failed),
    )


def usage() -> str:
    return insert(
        UsageRecord,
        "FROM scale_draft ORDER BY i",
        {
            "request_id": "id", "input": "input", "cached_input": "input / 3", "output": "output",
            "source": "CASE WHEN estimated THEN 'estimated' ELSE 'reported' END",
        },
    )  # fmt: skip


def ledger() -> tuple[str, ...]:
    """A top-up before each account's first charge; then charges in the order of time."""
    start = "1000000000000000"
    charges = f"""FROM (SELECT *, 1 + row_number() OVER w AS seq, {start} - sum(cost_nano) OVER w AS after
        FROM scale_draft WINDOW w AS (PARTITION BY account_id ORDER BY i)) d ORDER BY i"""
    return (
        insert(
            LedgerEntry,
            "FROM (SELECT account_id, min(moment) AS first FROM scale_draft GROUP BY 1) t",
            {
                "account_id": "account_id", "account_seq": "1", "source": "'topup:scale-' || account_id",
                "kind": "'topup'", "amount_nano": start, "balance_after_nano": start, "created_at": "first",
            },
        ),
        insert(
            LedgerEntry,
            charges,
            {
                "account_id": "account_id", "account_seq": "seq", "source": "'charge:' || id::text",
                "kind": "'charge'", "amount_nano": "-cost_nano", "balance_after_nano": "after",
                "request_id": "id", "created_at": "moment + interval '2 s'",
            },
        ),
        """UPDATE billing_account a SET account_seq = last.seq, balance_nano = last.after, changed_at = now()
            FROM (SELECT account_id, 1 + count(*) AS seq, 1000000000000000 - sum(cost_nano) AS after
            FROM scale_draft GROUP BY 1) last WHERE last.account_id = a.id""",
    )  # fmt: skip


def daily() -> str:
    return _rollup(UsageDaily, "day", "(moment AT TIME ZONE 'UTC' + interval '2 s')::date")


def hourly() -> str:
    return _rollup(UsageHourly, "hour", "date_trunc('hour', moment + interval '2 s')")


def _rollup(table: type[UsageDaily | UsageHourly], when: str, bucket: str) -> str:
    """Of the drafts from {first} to before {after}. A day may come in two pieces: they are added up."""
    counts = ", ".join(f"count(*) FILTER (WHERE bucket = {n})" for n in range(BUCKETS))
    grouped = f"""FROM (SELECT {bucket} AS moment, tenant_id, key_id, model, channel_id, count(*) AS n,
        count(*) FILTER (WHERE is_success) AS good, count(*) FILTER (WHERE estimated) AS guessed,
        sum(input) AS input, sum(output) AS output, sum(cost_nano) AS cost, sum(input / 3) AS cached,
        sum(cost_nano / 2) AS paid, jsonb_build_array({counts}) AS histogram
        FROM scale_draft WHERE i >= {{first}} AND i < {{after}} GROUP BY 1, 2, 3, 4, 5) g"""
    added = ("requests", "successes", "incomplete", "estimated", "input", "cached_input", "output",
             "charged_nano", "operator_cost_nano")  # fmt: skip
    sets = ", ".join(f"{name} = t.{name} + EXCLUDED.{name}" for name in added)
    merged = """(SELECT jsonb_agg(a::int + b::int ORDER BY n) FROM jsonb_array_elements_text(
        t.first_event_histogram) WITH ORDINALITY x (a, n) JOIN jsonb_array_elements_text(
        EXCLUDED.first_event_histogram) WITH ORDINALITY y (b, n) USING (n))"""
    return _upsert(table, when, grouped, sets, merged)


def _upsert(table: type[UsageDaily | UsageHourly], when: str, grouped: str, sets: str, merged: str) -> str:
    values = {
        when: "moment", "tenant_id": "tenant_id", "api_key_id": "key_id", "model": "model",
        "channel_id": "channel_id", "requests": "n", "successes": "good", "incomplete": "n - good",
        "estimated": "guessed", "input": "input", "cached_input": "cached", "output": "output",
        "charged_nano": "cost", "operator_cost_nano": "paid", "first_event_histogram": "histogram",
    }  # fmt: skip
    name = table._meta.db_table
    made = insert(table, grouped, values).replace(f"INSERT INTO {name}", f"INSERT INTO {name} AS t", 1)
    place = f"{when}, tenant_id, api_key_id, model, channel_id"
    return f"{made} ON CONFLICT ({place}) DO UPDATE SET {sets}, first_event_histogram = {merged}"
