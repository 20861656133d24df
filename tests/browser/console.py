"""What the browser tests share: the signed-in browser, sizes, contrast, and the marks of each module."""

import pytest
from playwright.async_api import BrowserContext, Locator, Page, expect

from tests.flows.gateway import Gateway

MARKS = [
    pytest.mark.browser,
    pytest.mark.slow,
    # WhiteNoise gives files as iterators that Django reads in a thread, and says so each time.
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume"),
]
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


class Console:
    """One signed-in browser. complaints: what pages put on its console or asked of other hosts."""

    def __init__(self, gateway: Gateway, context: BrowserContext, page: Page) -> None:
        self.gateway, self.context, self.page = gateway, context, page
        self.complaints: list[str] = []
        page.on("console", lambda said: said.type in {"error", "warning"} and self._note(said.text))
        page.on("response", lambda got: got.status >= 400 and self._note(f"{got.status} {got.url}"))
        page.on("pageerror", lambda error: self._note(str(error)))
        page.on(
            "request", lambda asked: asked.url.startswith((gateway.url, "data:")) or self._note(asked.url)
        )

    def _note(self, text: str) -> None:
        self.complaints.append(text)

    async def open(self, path: str) -> None:
        answer = await self.page.goto(f"{self.gateway.url}{path}")
        assert answer is not None
        assert answer.status == 200, await self.page.content()

    async def use_theme(self, theme: str) -> None:
        """Light or dark, as the theme itself keeps it."""
        await self.page.evaluate(f"localStorage.setItem('adminTheme', JSON.stringify('{theme}'))")
        await self.page.reload()
        await expect(self.page.locator("html")).to_have_class(theme)

    async def is_wider_than_the_window(self) -> bool:
        script = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return bool(await self.page.evaluate(script))


async def contrast(locator: Locator) -> float:
    """Contrast of an element's text with the background it stands on, as WCAG counts it (1 to 21)."""
    return await locator.evaluate(
        """element => {
          const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
          const rgba = colour => {
            canvas.clearRect(0, 0, 1, 1);
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data];
          };
          const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
            .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
          let behind = element;
          while (behind && rgba(getComputedStyle(behind).backgroundColor)[3] < 255) behind = behind.parentElement;
          const ground = behind ? rgba(getComputedStyle(behind).backgroundColor) : [255, 255, 255, 255];
          const style = getComputedStyle(element), alpha = Number(style.opacity);
          const ink = rgba(style.color).slice(0, 3).map((c, i) => c * alpha + ground[i] * (1 - alpha));
          const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
          return (a + 0.05) / (b + 0.05);
        }"""
    )
