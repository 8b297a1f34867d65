"""The page in a real browser: it opens from a disk, moves, sorts, prints, and is read on a phone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.report.browsing import DESK, PHONE, lowest_contrast, opened, wide

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAPER = 688  # A4 without its margins, in CSS pixels

# What is wider than its place and would be cut off on paper.
CUT = """() => Array.from(document.querySelectorAll(".scroll, pre"))
  .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.getAttribute("aria-label"))"""


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    """Where screenshots are kept."""
    wanted = Path(os.environ.get("SOAR_ARTIFACTS", tmp_path))
    wanted.mkdir(parents=True, exist_ok=True)
    return wanted


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
