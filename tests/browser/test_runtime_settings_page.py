"""The settings page in a real browser: the image failover switch, its dialog, pinned flags, keyboard, sizes."""

import pytest
from playwright.async_api import expect

from channels_admin import services
from channels_admin.flags import IMAGE_FAILOVER_FLAGS
from channels_admin.models import RuntimeFlag
from tests.browser.console import MARKS, PHONE, contrast

pytestmark = MARKS

PATH = "/admin/channels_admin/runtimeflag/"
AMBIGUOUS = "Also after 500, 502"
UNCERTAIN = "Also after timeouts"


async def saved(gateway):
    """The console's values of switch, ambiguous, uncertain."""
    rows = await gateway.run(lambda: dict(RuntimeFlag.objects.values_list("name", "value")))
    return tuple(rows[name] for name in IMAGE_FAILOVER_FLAGS)


async def state(console):
    return await console.page.locator("[data-failover]").get_attribute("data-failover")


async def told(console, text):
    await expect(console.page.get_by_text(text, exact=True)).to_be_visible()


async def open_dialog(console):
    await console.page.get_by_role("button", name="Turn on…").click()
    dialog = console.page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    return dialog


@pytest.mark.parametrize(
    ("ticked", "stored", "words"),
    [
        ((), (True, False, False), "On: repeats what an upstream refused before it drew."),
        ((AMBIGUOUS,), (True, True, False), "On, also after 5xx: a picture may be charged twice."),
        ((UNCERTAIN,), (True, False, True), "pictures will be charged twice"),
        ((AMBIGUOUS, UNCERTAIN), (True, True, True), "pictures will be charged twice"),
    ],
)
async def test_turning_on_asks_first_and_takes_what_was_ticked(console, ticked, stored, words):
    await console.open(PATH)
    assert await state(console) == "off"
    dialog = await open_dialog(console)
    assert await saved(console.gateway) == (None, None, None), "nothing is saved before it was confirmed"
    await expect(dialog).to_contain_text("may be charged twice")
    for label in (AMBIGUOUS, UNCERTAIN):
        await expect(dialog.get_by_label(label)).not_to_be_checked()
    for label in ticked:
        await dialog.get_by_label(label).check()
    await dialog.get_by_role("button", name="Turn on").click()
    await told(console, "Image failover is on.")
    assert await saved(console.gateway) == stored
    assert await state(console) == "on"
    await expect(console.page.locator("[data-failover]")).to_contain_text(words)


@pytest.mark.parametrize("way", ["button", "escape"])
async def test_a_dialog_left_changes_nothing_and_forgets_what_was_ticked(console, way):
    await console.open(PATH)
    dialog = await open_dialog(console)
    await dialog.get_by_label(UNCERTAIN).check()
    if way == "button":
        await dialog.get_by_role("button", name="Cancel").click()
    else:
        await console.page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    assert await saved(console.gateway) == (None, None, None)
    dialog = await open_dialog(console)
    await expect(dialog.get_by_label(UNCERTAIN)).not_to_be_checked()


async def test_ranges_are_changed_in_the_same_dialog(console):
    await console.gateway.run(services.image_failover_set, enabled=True, ambiguous=True)
    await console.open(PATH)
    await console.page.get_by_role("button", name="Change ranges…").click()
    dialog = console.page.get_by_role("dialog")
    await expect(dialog.get_by_label(AMBIGUOUS)).to_be_checked()
    await dialog.get_by_label(AMBIGUOUS).uncheck()
    await dialog.get_by_label(UNCERTAIN).check()
    await dialog.get_by_role("button", name="Save ranges").click()
    await told(console, "Image failover is on.")
    assert await saved(console.gateway) == (True, False, True)


async def test_turning_off_clears_both_ranges_with_an_explicit_false(console, monkeypatch):
    for name in IMAGE_FAILOVER_FLAGS:
        monkeypatch.setenv(name, "true")  # what the environment says must not come back
    await console.gateway.run(services.image_failover_set, enabled=True, ambiguous=True, uncertain=True)
    await console.open(PATH)
    await console.page.get_by_role("button", name="Turn off").click()
    await told(console, "Image failover is off, and so are both of its ranges.")
    assert await saved(console.gateway) == (False, False, False)
    assert await state(console) == "off"


async def test_the_consoles_values_can_be_cleared(console, monkeypatch):
    monkeypatch.setenv(IMAGE_FAILOVER_FLAGS[0], "true")
    await console.gateway.run(services.image_failover_set, enabled=False)
    await console.open(PATH)
    await expect(console.page.locator("#image-failover")).to_contain_text("Without the console's values: On:")
    await console.page.get_by_role("button", name="Clear the console's values").click()
    await expect(console.page.locator("[data-failover]")).to_contain_text("On:")
    assert await saved(console.gateway) == (None, None, None)


async def test_a_pinned_switch_is_shown_and_cannot_be_pressed(console, settings):
    settings.PINNED_FLAGS = (IMAGE_FAILOVER_FLAGS[0],)
    await console.open(PATH)
    button = console.page.get_by_role("button", name="Turn on…")
    await expect(button).to_be_disabled()
    await expect(button).to_have_accessible_description(
        "The switch is fixed by the environment (PINNED_FLAGS) and cannot be changed here."
    )
    await expect(console.page.get_by_role("dialog", include_hidden=True)).to_have_count(0)
    row = console.page.locator(f"[data-flag={IMAGE_FAILOVER_FLAGS[0]}]")
    await expect(row).to_contain_text("Fixed by the environment (PINNED_FLAGS).")


async def test_a_pinned_range_is_shown_in_the_dialog_and_cannot_be_ticked(console, settings, monkeypatch):
    ambiguous = IMAGE_FAILOVER_FLAGS[1]
    settings.PINNED_FLAGS = (ambiguous,)
    monkeypatch.setenv(ambiguous, "true")
    await console.open(PATH)
    dialog = await open_dialog(console)
    box = dialog.get_by_label(AMBIGUOUS)
    await expect(box).to_be_disabled()
    await expect(box).to_be_checked()
    await expect(box).to_have_accessible_description("Fixed by the environment (PINNED_FLAGS).")
    await dialog.get_by_role("button", name="Turn on").click()
    await told(console, "Image failover is on.")
    assert await saved(console.gateway) == (True, None, False)


async def test_the_dialog_works_by_keyboard_alone(console):
    page = console.page
    await console.open(PATH)
    opener = page.get_by_role("button", name="Turn on…")
    for _ in range(60):
        await page.keyboard.press("Tab")
        if await opener.evaluate("button => button === document.activeElement"):
            break
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label(AMBIGUOUS)).to_be_focused()
    for _ in range(8):  # the focus stays in the dialog (or in the browser's own bar, seen as the body)
        await page.keyboard.press("Tab")
        inside = (
            "document.activeElement === document.body || document.activeElement.closest('dialog') !== null"
        )
        assert await page.evaluate(inside)
    await page.keyboard.press("Escape")
    await expect(opener).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_label(AMBIGUOUS)).to_be_focused()
    await page.keyboard.press("Space")
    await page.keyboard.press("Enter")  # the form's one submit button
    await told(console, "Image failover is on.")
    assert await saved(console.gateway) == (True, True, False)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
async def test_page_and_dialog_fit_and_can_be_read(console, theme, size):
    if size == "phone":
        await console.page.set_viewport_size(PHONE)
    await console.open(PATH)
    await console.use_theme(theme)
    assert not await console.is_wider_than_the_window()
    dialog = await open_dialog(console)
    box = await dialog.bounding_box()
    window = console.page.viewport_size
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= window["width"]
    assert box["y"] + box["height"] <= window["height"], "the buttons must be in sight"
    assert await contrast(dialog.get_by_role("heading")) >= 4.5
    assert await contrast(dialog.locator(".console-note").first) >= 4.5
    assert await contrast(dialog.get_by_role("button", name="Turn on")) >= 4.5


async def test_a_flags_own_page_saves_and_the_list_says_who(console):
    await console.open(PATH)
    await console.page.get_by_role("link", name="RETRY_TIMES", exact=True).click()
    await console.page.get_by_label("Console value").fill("7")
    await console.page.get_by_role("button", name="Save", exact=True).click()
    row = console.page.locator("[data-flag=RETRY_TIMES]")
    await expect(row.locator("[data-effective]")).to_have_text("7")
    await expect(row).to_contain_text("operator")
    await expect(row).to_contain_text("console")


async def test_failover_flags_are_not_changed_past_the_dialog(console):
    await console.open(PATH)
    await console.page.get_by_role("link", name=IMAGE_FAILOVER_FLAGS[0], exact=True).click()
    await expect(console.page.get_by_label("Console value")).to_be_disabled()
    await expect(console.page.get_by_text("Changed by the image failover switch")).to_be_visible()
