"""Outcomes and the configured rows they point at."""

import itertools
from dataclasses import dataclass

import uuid_utils

from billing.admission.open_record import OpenRecord, Settlement
from billing.outcome_codec import settlement_without_price
from billing.services.requests import Recording, requests_record
from channels_admin.models import ApiKey, Channel, Tenant
from relay.core.end_reasons import EndReason
from relay.core.outcomes import AttemptOutcome, RequestOutcome, SoftError
from relay.core.usage import TokenUsage

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Owner:
    """Who calls, and the channel that answers."""

    tenant: Tenant
    api_key: ApiKey
    channel: Channel


def owner_make(name: str = "") -> Owner:
    number = next(_numbers)
    tenant = Tenant.objects.create(name=name or f"tenant-{uuid_utils.uuid7().hex[-12:]}")
    api_key = ApiKey.objects.create(
        tenant=tenant, name=f"key-{number}", digest=uuid_utils.uuid4().hex * 2, prefix=f"sk-{number:04d}"
    )
    channel = Channel.objects.create(
        name=f"channel-{uuid_utils.uuid7().hex[-12:]}", base_url="https://api.example.com", models=["*"]
    )
    return Owner(tenant, api_key, channel)


def request_id_make() -> str:
    return str(uuid_utils.uuid7())


def attempt_make(**overrides) -> AttemptOutcome:
    fields = {
        "number": 1,
        "channel_id": 1,
        "channel_name": "first",
        "upstream_key_id": 7,
        "upstream_host": "api.example.com",
        "model_sent": "gpt-4o-2024",
        "stream_asked": True,
        "stream_sent": True,
        "end_reason": EndReason.COMPLETED,
        "decision": "first candidate",
        "status": 200,
        "upstream_request_id": "req_upstream",
        "started_at": 1_800_000_000.25,
        "connect_ms": 1.5,
        "header_ms": 20.0,
        "first_byte_ms": 21.0,
        "first_event_ms": 22.0,
        "last_event_at": 1_800_000_001.5,
        "duration_ms": 1250.0,
        "events": 12,
        "bytes": 3456,
        "keepalives": 1,
        "finish_reasons": ("stop",),
        "soft_error_count": 1,
        "soft_errors": (SoftError(error_class="bad_event", offset=99),),
        "terminal_seen": True,
        "committed": True,
        "upstream_connected": True,
        "stream_processed": True,
        "stream_finished": True,
        "usage_complete": True,
        "client_consumed": True,
        "usage": TokenUsage(input=100, cached_input=40, output=20, reasoning=5),
    }
    return AttemptOutcome(**(fields | overrides))


def outcome_make(owner: Owner | None = None, **overrides) -> RequestOutcome:
    """A successful streamed request with one attempt; without an owner its rows do not exist."""
    channel_id = owner.channel.pk if owner else 1
    fields = {
        "request_id": request_id_make(),
        "tenant_id": owner.tenant.pk if owner else 1,
        "api_key_id": owner.api_key.pk if owner else 1,
        "group": "default",
        "method": "POST",
        "path": "/v1/chat/completions",
        "family": "chat",
        "dialect": "openai_chat",
        "model_asked": "gpt-4o",
        "model_answered": "gpt-4o-2024",
        "stream_asked": True,
        "end_reason": EndReason.COMPLETED,
        "status": 200,
        "started_at": 1_800_000_000.0,
        "duration_ms": 1300.0,
        "first_event_ms": 25.0,
        "client_request_id": "mine-1",
        "request_bytes": 812,
        "response_bytes": 3456,
        "message_count": 3,
        "tool_count": 2,
        "usage": TokenUsage(input=100, cached_input=40, output=20, reasoning=5),
        "attempts": (attempt_make(channel_id=channel_id),),
    }
    return RequestOutcome(**(fields | overrides))


def settlement_make(owner: Owner | None = None, amount_nano: int = 0, **overrides) -> Settlement:
    """overrides: of the settlement, else of its outcome."""
    own = {name: overrides.pop(name) for name in Settlement.__struct_fields__ if name in overrides}
    outcome = own.pop("outcome", None) or outcome_make(owner, **overrides)
    fields = {
        "outcome": outcome,
        "amount_nano": amount_nano,
        "usage_source": "none" if outcome.usage is None else "reported",
    }
    return Settlement(**(fields | own))


def open_record_make(owner: Owner | None = None, amount_nano: int = 0, **overrides) -> OpenRecord:
    """A stream as of its last checkpoint. overrides: of the record, else of its draft."""
    own = {name: overrides.pop(name) for name in OpenRecord.__struct_fields__ if name in overrides}
    draft = {
        "end_reason": EndReason.ABANDONED,
        "status": 200,
        "usage": TokenUsage(input=100, output=7),
        "attempts": (),
    }
    fields = {
        "draft": outcome_make(owner, **(draft | overrides)),
        "amount_nano": amount_nano,
        "is_estimated": True,
        "usage_method": "o200k",
    }
    return OpenRecord(**(fields | own))


def outcomes_record(outcomes: list[RequestOutcome]) -> Recording:
    """Written as what the previous release sent: without a price."""
    return requests_record([settlement_without_price(outcome) for outcome in outcomes])
