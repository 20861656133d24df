"""Every route × every kind of caller → status. A route that is not in the table fails: default deny.

To add a route: a row in TABLE.
"""

import datetime
from dataclasses import dataclass

import pytest
from django.utils import timezone

from channels_admin.services import api_key_close, channel_update, tenant_set_status
from channels_admin.statuses import AccessStatus
from gateway.api import api
from tests.factories.channels import a_tenant, an_api_key
from tests.factories.money import a_funded_tenant

MODEL = "org/echo-0"

CALLERS = (
    "no key", "unknown key", "closed key", "expired key", "closed tenant", "wrong address",
    "without the model", "other group", "other tenant", "owner",
)  # fmt: skip
NO_ACCESS = dict.fromkeys(CALLERS[:5], 401) | {"wrong address": 403}


@dataclass(frozen=True)
class Route:
    """target: `{own}` stands for the id of a request of the owner's. Callers not named are refused outright.

    kind: of the channel that serves it.
    """

    target: str
    without_the_model: int
    other_group: int
    other_tenant: int
    owner: int = 200
    body: bytes = b""
    kind: str = "openai"

    @property
    def expected(self) -> dict[str, int]:
        return NO_ACCESS | {
            "without the model": self.without_the_model,
            "other group": self.other_group,
            "other tenant": self.other_tenant,
            "owner": self.owner,
        }


_CHAT = b'{"model":"%s","messages":[{"role":"user","content":"hi"}]}' % MODEL.encode()
_CONTENTS = b'{"contents":[{"parts":[{"text":"hi"}]}]}'
_PASSED = Route("/v1/own/thing", without_the_model=403, other_group=404, other_tenant=200)
_PASSED_BODY = Route(
    "/v1/own/thing", without_the_model=404, other_group=404, other_tenant=200, body=b'{"model":"org/echo-0"}'
)

_ASKING = {
    "input": "responses responses/compact responses/input_tokens embeddings moderations rerank "
    "audio/speech audio/transcriptions audio/translations",
    "prompt": "completions images/generations images/edits images/variations",
}
"""What is asked → the endpoints, all of which a model stands in the body of."""

_ASKED = {
    ("POST", f"/v1/{path}"): Route(
        f"/v1/{path}", 404, 404, 200, body=b'{"model":"%s","%s":"hi"}' % (MODEL.encode(), name.encode())
    )
    for name, paths in _ASKING.items()
    for path in paths.split()
}

_GEMINI = {
    **{
        ("POST", f"{prefix}/{{call:call}}"): Route(
            f"{prefix}/{MODEL}:generateContent", 404, 404, 200, body=_CONTENTS, kind="gemini"
        )
        for prefix in ("/v1beta/models", "/v1/models", "/v1beta/tunedModels")
    },
    ("GET", "/v1beta/models"): Route("/v1beta/models", 200, 200, 200, kind="gemini"),
    ("GET", "/v1beta/models/{path:model_id}"): Route(f"/v1beta/models/{MODEL}", 404, 404, 200, kind="gemini"),
}

TABLE = {
    ("POST", "/v1/chat/completions"): Route("/v1/chat/completions", 404, 404, 200, body=_CHAT),
    **_ASKED,
    ("POST", "/v1/messages"): Route("/v1/messages", 404, 404, 200, body=_CHAT, kind="anthropic"),
    ("POST", "/v1/messages/count_tokens"): Route(
        "/v1/messages/count_tokens", 404, 404, 200, body=_CHAT, kind="anthropic"
    ),
    **_GEMINI,
    ("GET", "/v1/models"): Route("/v1/models", 200, 200, 200),
    ("GET", "/v1/models/{path:model_id}"): Route(f"/v1/models/{MODEL}", 404, 404, 200),
    ("GET", "/v1/requests/{request_id}"): Route("/v1/requests/{own}", 200, 404, 404),
    ("GET", "/v1/usage"): Route("/v1/usage", 200, 200, 200),
    ("GET", "/v1/dashboard/billing/subscription"): Route("/v1/dashboard/billing/subscription", 200, 200, 200),
    ("GET", "/v1/dashboard/billing/usage"): Route("/v1/dashboard/billing/usage", 200, 200, 200),
    ("GET", "/v1/{path:rest}"): _PASSED,
    ("HEAD", "/v1/{path:rest}"): _PASSED,
    ("OPTIONS", "/v1/{path:rest}"): _PASSED,
    ("DELETE", "/v1/{path:rest}"): _PASSED,
    ("POST", "/v1/{path:rest}"): _PASSED_BODY,
    ("PUT", "/v1/{path:rest}"): _PASSED_BODY,
    ("PATCH", "/v1/{path:rest}"): _PASSED_BODY,
}
LISTS = {"/v1/models": ("data", "id"), "/v1beta/models": ("models", "displayName")}
"""Answered to everybody with a key, with what is theirs → where the models and their names stand."""


def _routes() -> set[tuple[str, str]]:
    return {
        (method, f"{prefix}{path}")
        for prefix, router in api._routers
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
    }


def test_every_route_is_in_the_table():
    assert _routes() - set(TABLE) == set(), "add a row for each"
    assert set(TABLE) - _routes() == set(), "these are gone"


def _callers(gateway) -> dict[str, str | None]:
    tenant = gateway.tenant
    closed_row, closed = an_api_key(tenant)
    api_key_close(api_key_id=closed_row.pk)
    shut = a_tenant()
    _, of_shut = an_api_key(shut)
    tenant_set_status(tenant_id=shut.pk, status=AccessStatus.CLOSED)
    past = timezone.now() - datetime.timedelta(seconds=1)
    return {
        "no key": None,
        "unknown key": "sk-" + "u" * 40,
        "closed key": closed,
        "expired key": an_api_key(tenant, expires_at=past)[1],
        "closed tenant": of_shut,
        "wrong address": an_api_key(tenant, allowed_networks=["203.0.113.0/24"])[1],
        "without the model": an_api_key(tenant, allowed_models=["another"])[1],
        "other group": an_api_key(a_tenant(group="elsewhere"))[1],
        "other tenant": an_api_key(a_funded_tenant())[1],
        "owner": gateway.key,
    }


@pytest.mark.parametrize("route", TABLE, ids=" ".join)
async def test_who_may_what(gateway, route):
    method, _ = route
    row = TABLE[route]
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, models=[MODEL, "*"])
    if row.kind != "openai":
        await gateway.add_channel(gateway.simulator.base_url, kind=row.kind, models=[MODEL, "*"])
    keys = await gateway.configure(_callers, gateway)
    own = (await gateway.chat("echo-0")).request_id
    await gateway.recorded()
    gateway.simulator.requests.clear()
    found, reached = {}, []
    for caller in CALLERS:
        before = len(gateway.simulator.requests)
        json_type = ("Content-Type", "application/json")
        target = row.target.format(own=own)
        heard = await gateway.ask(method, target, json_type, body=row.body, key=keys[caller])
        found[caller] = heard.status
        if len(gateway.simulator.requests) > before:
            reached.append(caller)
        if heard.status >= 400 and method != "HEAD":
            assert heard.told_request_id == heard.request_id
    assert found == row.expected
    assert reached == [caller for caller in reached if found[caller] == 200], "refused, and sent all the same"


@pytest.mark.parametrize("target", LISTS)
async def test_lists_hold_what_is_the_callers(gateway, target):
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, models=[MODEL, "*"])
    await gateway.add_channel(gateway.simulator.base_url, kind="gemini", models=[MODEL, "*"])
    keys = await gateway.configure(_callers, gateway)
    found = {}
    for caller in ("without the model", "other group", "other tenant", "owner"):
        models, name = LISTS[target]
        heard = await gateway.ask("GET", target, key=keys[caller])
        found[caller] = [model[name] for model in heard.json()[models]]
    assert found == {
        "without the model": [], "other group": [], "other tenant": [MODEL], "owner": [MODEL],
    }  # fmt: skip


@pytest.mark.parametrize("target", ["/v1", "/v1/", "/v1beta", "/v1beta/", "/v1beta/files", "/v1beta/models/"])
@pytest.mark.parametrize("has_key", [True, False])
async def test_what_is_no_route_is_nothing(gateway, target, has_key):
    heard = await gateway.ask("GET", target, key="" if has_key else None)
    assert heard.status == 404
    assert gateway.simulator.requests == []


@pytest.mark.parametrize("target", ["/healthz", "/readyz"])
async def test_health_needs_no_key_and_tells_nothing(gateway, target):
    heard = await gateway.ask("GET", target, key=None)
    assert heard.status == 200
    assert len(heard.body) < 40


async def test_an_allow_list_looks_at_the_socket_and_not_at_what_is_claimed(gateway):
    _, key = await gateway.configure(an_api_key, gateway.tenant, allowed_networks=["203.0.113.0/24"])
    for name in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "CF-Connecting-IP"):
        heard = await gateway.chat("echo-0", (name, "203.0.113.5"), key=key)
        assert heard.status == 403
    _, local = await gateway.configure(an_api_key, gateway.tenant, allowed_networks=["127.0.0.0/8"])
    assert (await gateway.chat("echo-0", key=local)).status == 200


async def test_an_expiry_acts_while_the_key_is_cached(gateway):
    soon = timezone.now() + datetime.timedelta(seconds=0.5)
    _, key = await gateway.configure(an_api_key, gateway.tenant, expires_at=soon)
    statuses = []
    while timezone.now() < soon + datetime.timedelta(seconds=0.2):
        statuses.append((await gateway.chat("echo-0", key=key)).status)
    assert statuses[0] == 200
    assert statuses[-1] == 401
    assert statuses == sorted(statuses)
