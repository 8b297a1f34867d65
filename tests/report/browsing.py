"""Open pages of reports in a real browser, and fail on whatever it complains about or asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PHONE, DESK = 390, 1280
# The contrast of every text with the first opaque ground behind it, by the formula of WCAG 2.1.
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return Array.from(canvas.getImageData(0, 0, 1, 1).data);
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = rgba(getComputedStyle(one).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255, 255];
  };
  return Array.from(document.querySelectorAll("body *"))
    .filter((one) => !one.closest("svg, script") && one.checkVisibility({visibilityProperty: true}))
    .filter((one) => Array.from(one.childNodes).some((child) => child.nodeType === 3 && child.data.trim()))
    .map((one) => {
      const pair = [light(rgba(getComputedStyle(one).color)), light(ground(one))].sort((a, b) => b - a);
      const where = `${one.tagName}.${one.className}: ${one.textContent.slice(0, 30)}`;
      return [(pair[0] + 0.05) / (pair[1] + 0.05), where];
    })
    .sort((a, b) => a[0] - b[0])[0];
}"""


@contextmanager
def opened(browser: Browser, path: Path, width: int = DESK, **options: Any) -> Iterator[Page]:
    """Open a page from the disk and fail on whatever it complains about or asks for."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    shown, complaints, requests = context.new_page(), [], []
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.on("request", lambda request: requests.append(request.url))
    shown.goto(path.as_uri())
    yield shown
    asked = {url for url in requests if not url.startswith("data:")}
    assert complaints == [] and asked == {path.as_uri()}
    context.close()


def wide(shown: Page) -> int:
    return int(shown.evaluate("document.documentElement.scrollWidth"))


def lowest_contrast(shown: Page) -> tuple[float, str]:
    found: tuple[float, str] = shown.evaluate(CONTRASTS)
    return found
