"""What `make run` puts into an empty database, and what it tells the person at the terminal.

The demo's API key and the admin's password are made once and kept in DATA_DIR (mode 0600): the database
holds only their digests.
"""

import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.contrib.auth.models import User

from channels_admin.crypto import api_key_digest, generate_api_key
from channels_admin.models import ApiKey, Channel, Tenant
from channels_admin.statuses import AccessStatus
from gateway.provisioning import apply_text
from gateway.settings.secrets import kept_secret
from gateway.simulator import all_behaviours

ADMIN = "admin"
CHANNEL = "simulator"
KEY_FILE = "demo_api_key"
PASSWORD_FILE = "demo_admin_password"  # noqa: S105  a file's name
_LOOPBACK = "http://127.0.0.1:"

_CONFIGURATION = """
channels:
  - name: simulator
    kind: openai
    base_url: ${SIMULATOR_URL}
    models: ${SIMULATOR_MODELS}
    keys: [sk-simulator]
prices:
  - {model: echo, input: 1, cached_input: 0.5, output: 2}
  - {model: "*", input: 1, cached_input: 0.5, output: 2}
tenants:
  - name: demo
    balance_usd: 10
    api_keys: [{name: demo, key: "${DEMO_KEY}"}]
"""
_MOVED = "channels: [{name: simulator, base_url: '${SIMULATOR_URL}'}]"


@dataclass(frozen=True, slots=True)
class DemoAccess:
    """api_key, admin_password: empty where they are not the demo's; `notes` then say why."""

    api_key: str = field(repr=False)
    admin_password: str = field(repr=False)
    simulator_url: str
    notes: tuple[str, ...]


def demo_provision(*, data_dir: Path, simulator_url: str) -> DemoAccess:
    """Fills an empty database; in one that is in use, only moves the simulator's channel to its port.

    Raises ProvisioningRefused, when the environment forbids channels on loopback.
    """
    notes = []
    if not Tenant.objects.exists():
        environ = {
            "SIMULATOR_URL": simulator_url,
            "DEMO_KEY": kept_secret(data_dir, KEY_FILE, generate_api_key),
        }
        text = _CONFIGURATION.replace("${SIMULATOR_MODELS}", json.dumps(simulator_models()))
        apply_text(text, name="demo configuration", environ=environ)
    elif _is_to_move(simulator_url):
        apply_text(_MOVED, name="demo configuration", environ={"SIMULATOR_URL": simulator_url})
    api_key = _kept_api_key(data_dir)
    if not api_key:
        notes.append("The database has tenants of its own: use one of their API keys.")
    password = _admin_password(data_dir)
    if not password:
        notes.append("The database has administrators of its own: log in as one of them.")
    return DemoAccess(api_key, password, simulator_url, tuple(notes))


def simulator_models() -> list[str]:
    """The simulator's own model names and no `*`: it must never answer for a real model."""
    return [re.sub(r"\{\w+\}", "*", behaviour.pattern) for behaviour in all_behaviours()]


def _is_to_move(simulator_url: str) -> bool:
    """Only a channel that points to a simulator on this machine is the demo's to change."""
    row = Channel.objects.filter(name=CHANNEL, base_url__startswith=_LOOPBACK).first()
    return row is not None and row.base_url != simulator_url


def _kept_api_key(data_dir: Path) -> str:
    """The demo's key if it still opens the door, else empty."""
    if not (data_dir / KEY_FILE).exists():
        return ""
    plain = kept_secret(data_dir, KEY_FILE)
    active = ApiKey.objects.filter(digest=api_key_digest(plain), status=AccessStatus.ACTIVE.value)
    return plain if active.filter(tenant__status=AccessStatus.ACTIVE.value).exists() else ""


def _admin_password(data_dir: Path) -> str:
    if not User.objects.filter(is_superuser=True).exists():
        password = kept_secret(data_dir, PASSWORD_FILE, lambda: secrets.token_urlsafe(12))
        User.objects.create_superuser(ADMIN, password=password)
        return password
    user = User.objects.filter(username=ADMIN, is_superuser=True, is_active=True).first()
    if user is None or not (data_dir / PASSWORD_FILE).exists():
        return ""
    password = kept_secret(data_dir, PASSWORD_FILE)
    return password if user.check_password(password) else ""


def summary_lines(url: str, access: DemoAccess) -> Iterator[str]:
    """url: where the gateway answers, without trailing slash."""
    key = access.api_key or "YOUR_API_KEY"
    yield ""
    yield f"Sluice is running at {url} (Ctrl-C ends it)."
    yield ""
    if access.api_key:
        yield f"  API key   {access.api_key}"
    yield f"  Console   {url}/admin/"
    if access.admin_password:
        yield f"  Login     {ADMIN} / {access.admin_password}"
    yield f"  Upstream  simulator at {access.simulator_url}; the model's name chooses what it does:"
    yield "            manage.py simulate_upstream --list"
    for note in access.notes:
        yield f"  Note      {note}"
    yield ""
    yield "A stream with curl:"
    yield ""
    yield f"  {_curl(url, key)}"
    yield ""
    yield "With the OpenAI SDK:"
    yield ""
    yield f'  client = OpenAI(base_url="{url}/v1", api_key="{key}")'
    yield ""


def _curl(url: str, key: str) -> str:
    body = (
        '{"model": "echo", "stream": true, "messages": '
        '[{"role": "user", "content": "Every word of this comes back by itself."}]}'
    )
    return (
        f"curl -N {url}/v1/chat/completions -H 'Authorization: Bearer {key}' "
        f"-H 'Content-Type: application/json' -d '{body}'"
    )
