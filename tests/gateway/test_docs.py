"""The written pages in docs/: links lead somewhere, examples are accepted, what they name exists."""

import re
from pathlib import Path

import pytest
import yaml

from channels_admin.flags import FLAGS
from channels_admin.models import Channel, StreamPolicy
from gateway.provisioning import apply_text
from gateway.provisioning.schema import ENTRIES
from gateway.settings.environment import Environment
from relay.core.end_reasons import EndReason

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
COMPOSE_AND_SHELL = {
    "API_KEY", "REQUEST_ID", "ATOMIC_REQUESTS", "DEBUG", "OPENAI_KEY", "ACME_KEY", "SPARE_KEY",
}  # fmt: skip


def _prose(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _prose(path), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def _examples() -> str:
    return "\n".join(re.findall(r"```yaml\n(.*?)```", _prose(ROOT / "docs" / "provisioning.md"), re.DOTALL))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", _prose(page)):
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        assert path.is_file(), target
        assert not anchor or anchor in _anchors(path), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_that_are_named_exist(page):
    named = set(re.findall(r"`([A-Z][A-Z]*(?:_[A-Z]+)+)`", _prose(page)))
    assert named <= set(Environment.model_fields) | set(FLAGS) | COMPOSE_AND_SHELL


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page):
    for name in re.findall(r"`((?:deploy|docs|tests)/[\w./-]+)`", _prose(page)):
        assert (ROOT / name.rstrip("/")).exists(), name


def test_every_system_check_is_told():
    sources = [
        path.read_text()
        for app in ("gateway", "billing", "channels_admin")
        for path in (ROOT / app).rglob("*.py")
    ]
    ids = {
        found
        for text in sources
        for found in re.findall(r'"((?:gateway|billing|channels_admin)\.[EW]\d{3})"', text)
    }
    told = set(re.findall(r"`(\w+\.[EW]\d{3})`", _prose(ROOT / "docs" / "operations.md")))
    assert told == ids


def test_end_reasons_named_by_the_stream_page_exist():
    text = _prose(ROOT / "docs" / "stream-runtime.md")
    named = {
        word
        for word in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text)
        if re.search(r"_(?:timeout|terminal|slow|shutdown)$", word)
    }
    assert named
    assert named <= {reason.value for reason in EndReason}


@pytest.mark.django_db
def test_the_provisioning_examples_are_accepted_as_one_file():
    environ = {"OPENAI_KEY": "sk-one", "SPARE_KEY": "sk-two", "ACME_KEY": "sk-" + "a" * 43}
    report = apply_text(_examples(), name="docs/provisioning.md", environ=environ)
    assert report.has_changes
    assert Channel.objects.get(name="main").policy == StreamPolicy.objects.get(name="patient")
    again = apply_text(_examples(), name="docs/provisioning.md", environ=environ)
    assert not again.has_changes


def test_the_provisioning_examples_show_every_field_of_a_channel():
    shown = {name for entry in yaml.safe_load(_examples())["channels"] for name in entry}
    assert shown == set(ENTRIES[("channels",)].model_fields)


def test_every_price_part_is_named():
    text = _prose(ROOT / "docs" / "provisioning.md")
    parts = set(ENTRIES[("prices",)].model_fields) - {"model", "group", "effective_from"}
    assert all(f"`{part}`" in text for part in parts)
