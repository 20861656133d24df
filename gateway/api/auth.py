"""Authentication of relay endpoints: one API key, wherever the caller's SDK puts it."""

import ipaddress

from django.http import HttpRequest
from django.utils import timezone

from channels_admin.selectors.api_keys import ApiKeyRefusal
from gateway import wiring
from gateway.api_keys import refusal_message
from gateway.front.request import client_request
from relay.core.errors import Refusal
from relay.core.headers import credential
from relay.core.types import Caller


async def authenticate(request: HttpRequest) -> Caller:
    """The caller, as `request.auth`. Raises Refusal 401, 403 (address), 503 (keys cannot be checked)."""
    asked = client_request(request)
    query = asked.scope["query_string"].decode("latin-1")
    api_key = credential(asked.relay_headers, query)
    if api_key is None:
        message = "No API key was given. Send it as `Authorization: Bearer <key>`."
        raise Refusal(401, message, kind="authentication_error", code="missing_api_key")
    found = await wiring.current().api_keys.find(api_key)
    if found.caller is None:
        raise refusal_message(found.refusal or ApiKeyRefusal.UNKNOWN)
    caller = found.caller
    if caller.expires_at is not None and caller.expires_at <= timezone.now():
        raise refusal_message(ApiKeyRefusal.EXPIRED)
    if caller.allowed_networks and not _is_within(asked.client_ip, caller):
        message = "This API key may not be used from this address."
        raise Refusal(403, message, kind="permission_error", code="address_not_allowed")
    return caller


def _is_within(client_ip: str, caller: Caller) -> bool:
    try:
        address = ipaddress.ip_address(client_ip)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in caller.allowed_networks)
