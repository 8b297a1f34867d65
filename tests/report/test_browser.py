"""The page in a real browser: it opens from a disk, moves, sorts, prints, and is read on a phone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from soar.report.page import page as make_page
from tests.report.made import bare, certified, hostile, made_content

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright"
)

NAMES = ("chromium", "chromium-browser", "google-chrome")
PHONE, DESK = 390, 1280
PAPER = 688  # A4 without its margins, in CSS pixels
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

# What is wider than its place and would be cut off on paper.
CUT = """() => Array.from(document.querySelectorAll(".scroll, pre"))
  .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.getAttribute("aria-label"))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    wanted = [os.environ.get("SOAR_BROWSER"), *map(shutil.which, NAMES)]
    executable = next((path for path in wanted if path), None)
    if executable is None:
        pytest.skip(
            f"no browser is installed: none of {', '.join(NAMES)} is on the path, SOAR_BROWSER is not set"
        )
    with sync_api.sync_playwright() as started:
        # Everything runs as root in a container, where the sandbox cannot start; the page is our own.
        opened = started.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pages that are opened."""
    made = tmp_path_factory.mktemp("pages")
    one, two = made_content(2)
    for name, runs in {
        "one": [one],
        "two": [one, two],
        "five": [*made_content(5)],
        "bare": [bare(two), one],
        "certified": [certified(one), two],
        "hostile": [hostile(one), hostile(two)],
    }.items():
        (made / f"{name}.html").write_text(make_page(runs), encoding="utf-8")
    return made


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    """Where screenshots are kept."""
    wanted = Path(os.environ.get("SOAR_ARTIFACTS", tmp_path))
    wanted.mkdir(parents=True, exist_ok=True)
    return wanted


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


@pytest.mark.parametrize(
    "name, width",
    [
        ("two", PHONE),
        ("two", DESK),
        ("five", PHONE),
        ("five", DESK),
        ("bare", PHONE),
        ("hostile", PHONE),
        ("certified", PHONE),
        ("certified", DESK),
    ],
)
def test_opens_from_disk_without_request_or_complaint_and_nothing_overflows(
    browser: Browser, folder: Path, artifacts: Path, name: str, width: int
) -> None:
    with opened(browser, folder / f"{name}.html", width) as shown:
        assert wide(shown) <= width
        assert shown.locator("section").count() == 10
        if name == "two":
            shown.screenshot(path=artifacts / f"report-{width}.png", full_page=True)
        shown.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        for tab in shown.locator('[role="tab"]').all():
            tab.click()
        assert wide(shown) <= width


def test_the_slider_changes_image_perturbation_and_numbers_by_mouse_and_keyboard(
    browser: Browser, folder: Path, artifacts: Path
) -> None:
    with opened(browser, folder / "two.html") as shown:
        slider, said = shown.locator("#eps-0"), shown.locator(".slider output").first
        card = shown.locator(".specimen").first

        def state() -> list[str | None]:
            return [
                card.locator("img.attacked").get_attribute("src"),
                card.locator("img.change").get_attribute("src"),
                card.locator(".share").first.inner_text(),
                card.locator(".bar span").first.get_attribute("style"),
                said.inner_text(),
            ]

        before = state()
        assert before[-1] == "eps = 0.1, the threat"
        assert card.locator(".prediction").inner_text() == "✗ misclassified: predicted Dress"
        slider.focus()
        shown.keyboard.press("ArrowRight")
        after = state()
        assert after[-1] == "eps = 0.125" and all(a != b for a, b in zip(before, after, strict=True))
        shown.keyboard.press("Home")
        assert state()[-1] == "eps = 0: the clean image"
        assert slider.get_attribute("aria-valuetext") == "eps = 0: the clean image"
        assert card.locator(".prediction").inner_text() == "✓ correct: predicted T-shirt"
        assert card.locator("img.attacked").get_attribute("src") == card.locator("img.clean").get_attribute(
            "src"
        )
        card.screenshot(path=artifacts / "specimen-clean.png")
        box = slider.bounding_box()
        assert box is not None
        shown.mouse.click(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
        assert state()[-1] == "eps = 0.2"
        shown.get_by_role("tablist", name="gallery").get_by_role("tab").nth(1).click()
        assert shown.locator("#eps-1").input_value() == "8"  # the other run has moved along


def test_tables_sort_by_every_column_and_the_worst_case_stays(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "two.html") as shown:
        table = shown.locator("table.attacks")
        names = table.locator("tbody th")
        order = ["clean", "PGD-20", "APGD-CE", "APGD-DLR", "Square-500"]
        assert names.all_inner_texts() == order
        accuracy = table.get_by_role("button", name="soar-zero-start, accuracy")
        accuracy.click()
        assert names.all_inner_texts() == ["APGD-DLR", "Square-500", "APGD-CE", "PGD-20", "clean"]
        assert table.locator('[aria-sort="ascending"]').count() == 1
        accuracy.press("Enter")
        assert names.all_inner_texts() == ["clean", "PGD-20", "APGD-CE", "Square-500", "APGD-DLR"]
        table.get_by_role("button", name="attack", exact=True).press("Space")
        assert names.all_inner_texts() == sorted(order, key=str.lower)
        table.get_by_role("button", name="pgd-10, seconds").click()
        assert names.all_inner_texts() == [*order[1:], "clean"]  # which has no time
        table.get_by_role("button", name="pgd-10, seconds").click()
        assert names.all_inner_texts() == [*order[:0:-1], "clean"]
        assert table.locator("tfoot th").inner_text() == "worst case"
        for button in shown.locator("thead button").all():
            if button.is_visible():
                button.click()


def test_tabs_move_by_keyboard(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "five.html") as shown:
        tabs = shown.locator("#diagnosis").get_by_role("tab")
        assert tabs.count() == 5 and "masked" in tabs.nth(1).inner_text()
        tabs.first.press("ArrowLeft")
        assert tabs.nth(4).get_attribute("aria-selected") == "true"
        assert shown.locator("#diagnosis .panel").nth(4).is_visible()
        assert not shown.locator("#diagnosis .panel").first.is_visible()
        assert shown.evaluate("document.activeElement.id") == "diagnosis-run-4-tab"


def test_dark_and_light_by_system_and_by_button(browser: Browser, folder: Path, artifacts: Path) -> None:
    path = folder / "five.html"
    color = "getComputedStyle(document.body).backgroundColor"
    grounds = {}
    for scheme in ("light", "dark"):
        with opened(browser, path, color_scheme=scheme) as shown:
            grounds[scheme] = shown.evaluate(color)
            ratio, where = lowest_contrast(shown)
            assert ratio >= 4.5, f"{scheme}: {ratio:.2f} at {where}"
            shown.screenshot(path=artifacts / f"report-{scheme}.png")
    assert grounds["light"] != grounds["dark"]
    with opened(browser, path, color_scheme="light") as shown:
        button = shown.locator("#theme")
        button.click()
        assert shown.evaluate(color) == grounds["dark"]
        assert button.get_attribute("aria-label") == "Switch to light colors"
        line = shown.locator("#radius svg text").first
        assert line.evaluate("one => getComputedStyle(one).fill") != "rgb(0, 0, 0)"
        shown.reload()
        assert shown.evaluate(color) == grounds["dark"]  # remembered
        shown.locator("#theme").click()
        assert shown.evaluate(color) == grounds["light"]


def test_a_browser_that_refuses_storage_still_changes_the_theme(browser: Browser, folder: Path) -> None:
    context = browser.new_context(color_scheme="light")
    shown, complaints = context.new_page(), []
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    refusal = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('refused'); }})"
    shown.add_init_script(refusal)
    shown.goto((folder / "one.html").as_uri())
    shown.locator("#theme").click()
    assert shown.evaluate("document.documentElement.dataset.theme") == "dark"
    assert shown.locator("#eps-0").is_visible() and complaints == []
    context.close()


def test_paper_shows_everything_and_no_controls(browser: Browser, folder: Path, artifacts: Path) -> None:
    with opened(browser, folder / "two.html", PAPER, color_scheme="dark") as shown:
        shown.emulate_media(media="print", color_scheme="dark")
        assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert all(panel.is_visible() for panel in shown.locator(".panel").all())
        for text in ("zero gradients", "[objective]"):  # in parts that are folded up on the screen
            assert shown.get_by_text(text).first.is_visible()
        for control in (".slider input", "nav", "#theme", '[role="tablist"]', ".copyable button"):
            assert not any(one.is_visible() for one in shown.locator(control).all()), control
        assert shown.evaluate(CUT) == []
        shown.screenshot(path=artifacts / "report-print.png", full_page=True)
        shown.pdf(path=artifacts / "report.pdf", format="A4", print_background=True)
        assert (artifacts / "report.pdf").stat().st_size > 50_000


@pytest.mark.parametrize("name", ["five", "hostile"])
def test_paper_cuts_nothing_off(browser: Browser, folder: Path, name: str) -> None:
    with opened(browser, folder / f"{name}.html", PAPER) as shown:
        shown.emulate_media(media="print")
        assert shown.evaluate(CUT) == [] and wide(shown) <= PAPER


def test_without_scripts_all_content_is_there(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "two.html", java_script_enabled=False) as shown:
        assert all(panel.is_visible() for panel in shown.locator(".panel").all())
        assert shown.locator(".specimen").count() == 12
        assert shown.locator(".specimen").first.locator("img.attacked").is_visible()
        assert "misclassified: predicted Dress" in shown.locator(".specimen").first.inner_text()
        for control in (".slider input", "#theme"):
            assert not shown.locator(control).first.is_visible()
        assert shown.locator("th button").count() == 0
        assert shown.locator(".slider output").first.inner_text() == "eps = 0.1, the threat"


def test_commands_are_copied_or_selected(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "one.html") as shown:
        button = shown.locator(".copyable button")
        button.click()
        shown.wait_for_function("document.querySelector('.copyable button').textContent !== 'Copy'")
        assert button.inner_text() in ("Copied", "Selected: press Ctrl+C")


def test_hostile_names_do_nothing(browser: Browser, folder: Path, artifacts: Path) -> None:
    with opened(browser, folder / "hostile.html", PHONE) as shown:
        assert shown.locator("img[onerror], section script:not([type])").count() == 0
        shown.locator("#eps-0").focus()
        shown.keyboard.press("End")
        assert "onerror" in shown.locator(".predicted").first.inner_text()  # as text
        shown.screenshot(path=artifacts / "report-hostile.png")


def test_those_who_want_no_motion_get_none(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "one.html", reduced_motion="reduce") as shown:
        bar = shown.locator(".shares .bar span").first
        assert bar.evaluate("one => getComputedStyle(one).transitionDuration") == "0s"
