"""Usage reports in a real browser: figures, charts, drilling down, the file, keyboard, sizes."""

import datetime
import re

import pytest
from django.utils import timezone
from playwright.async_api import expect

from tests.browser.console import MARKS, PHONE, contrast
from tests.factories.billing import Owner
from tests.factories.usage import first_events, usage_make

pytestmark = MARKS

PATH = "/admin/billing/usagedaily/"


@pytest.fixture
def role():
    return "viewer"


@pytest.fixture
async def used(gateway):
    """Two days of use."""
    owner = Owner(gateway.tenant, gateway.api_key, gateway.channel)
    today = timezone.now().date()
    figures = {"charged_nano": 1_500_000_000, "first_event_histogram": first_events(ms_300=3, ms_5000=1)}
    await gateway.run(usage_make, owner, today, requests=4, successes=3, **figures)
    await gateway.run(usage_make, owner, today - datetime.timedelta(days=1), model="=mini", requests=6)
    return today


async def painted(canvas):
    """Whether anything was drawn."""
    script = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(byte => byte !== 0)"
    return await canvas.evaluate(script)


async def test_a_viewer_finds_the_report_and_its_charts(console, used):
    await console.open("/admin/")
    await console.page.get_by_role("link", name="Usage reports").first.click()
    rows = console.page.locator("#usage-report tbody tr")
    await expect(rows).to_have_count(2)
    await expect(console.page.locator("#usage-report tfoot")).to_contain_text("10")
    charts = console.page.locator("canvas.chart")
    await expect(charts).to_have_count(2)
    for canvas in await charts.all():
        assert await painted(canvas)
        await expect(canvas).to_have_accessible_name(re.compile("the figures stand in the table below"))


async def test_grouping_and_drilling_down(console, used):
    await console.open(PATH)
    await console.page.get_by_label("Group by").select_option(label="Model")
    await console.page.get_by_role("button", name="Show").click()
    table = console.page.locator("#usage-report")
    await expect(table.locator("tbody tr")).to_have_count(2)
    await table.get_by_role("link", name="=mini").click()
    await expect(table.locator("tbody tr")).to_have_count(1)
    await expect(table.locator("tbody tr")).to_contain_text("6")
    await console.page.get_by_role("link", name="Show all, not only =mini").click()
    await expect(table.locator("tbody tr")).to_have_count(2)


async def test_the_file_is_downloaded(console, used):
    await console.open(f"{PATH}?by=model")
    async with console.page.expect_download() as started:
        await console.page.get_by_role("link", name="Download CSV").click()
    download = await started.value
    assert download.suggested_filename.startswith("usage-by-model-")
    path = await download.path()
    assert "'=mini" in path.read_text("utf-8-sig")


async def test_a_bad_range_is_told_where_it_was_typed(console, used):
    await console.open(PATH)
    await console.page.get_by_label("To, included").fill("2001-01-01")
    await console.page.get_by_role("button", name="Show").click()
    await expect(console.page.get_by_role("alert")).to_have_text("The range ends before it begins.")
    await expect(console.page.locator("#usage-report")).to_have_count(0)


async def test_the_form_works_by_keyboard(console, used):
    page = console.page
    await console.open(PATH)
    await page.get_by_label("Group by").focus()
    await page.keyboard.type("Ten")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator("#usage-report tbody tr")).to_have_count(1)
    assert "by=tenant" in page.url


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
async def test_the_page_fits_and_can_be_read(console, used, theme, size):
    if size == "phone":
        await console.page.set_viewport_size(PHONE)
    await console.open(PATH)
    await console.use_theme(theme)
    assert not await console.is_wider_than_the_window()
    for selector in (".console-tile strong", ".console-tile .console-note", "#usage-report th", "h2"):
        assert await contrast(console.page.locator(selector).first) >= 4.5, selector


async def test_nothing_used_is_said(console):
    await console.open(PATH)
    await expect(console.page.get_by_text("Nothing was used in this range.")).to_be_visible()
