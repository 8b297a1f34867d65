"""The page in a real browser: runs are hidden, sections folded up, tables saved, and all of it on a phone."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.report.browsing import DESK, PHONE, lowest_contrast, opened, wide

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def count_of(shown: Page, place: int, *, panels: bool) -> int:
    """Count what is seen of a run, names in legends aside."""
    which = f"[data-run='{place}']:not(.entry)" + ("" if panels else ":not(.panel)")
    return int(
        shown.locator(which).evaluate_all("all => all.filter((one) => one.getClientRects().length).length")
    )


def test_a_run_is_hidden_everywhere_and_comes_back(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "five.html") as shown:
        box = shown.get_by_role("checkbox", name="pgd-10")
        before = count_of(shown, 0, panels=False)
        assert before > 30 and shown.locator("#diagnosis-run-0").is_visible()
        box.uncheck()
        assert count_of(shown, 0, panels=True) == 0
        assert shown.locator("#headline article:visible h3").all_inner_texts() == [
            "soar-zero-start",
            "trades",
            "cure",
            "standard",
        ]
        assert "pgd-10" not in " ".join(shown.locator("#attacks th:visible").all_inner_texts())
        # Where its panel was chosen, that of the next run is.
        assert shown.locator("#diagnosis-run-1").is_visible()
        shown.locator("#diagnosis-run-1-tab").press("ArrowLeft")
        assert shown.locator("#diagnosis-run-4").is_visible()
        shown.locator("#diagnosis-run-4-tab").press("ArrowRight")
        assert shown.locator("#diagnosis-run-1").is_visible()
        box.check()
        assert count_of(shown, 0, panels=False) == before
        shown.locator("#diagnosis-run-0-tab").click()
        assert shown.locator("#diagnosis-run-0").is_visible()


def test_sorting_goes_by_the_same_columns_when_a_run_is_hidden(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "two.html") as shown:
        shown.get_by_role("checkbox", name="pgd-10").uncheck()
        shown.get_by_role("button", name="soar-zero-start, accuracy").click()
        names = shown.locator("table.attacks tbody th").all_inner_texts()
        assert names == ["APGD-DLR", "Square-500", "APGD-CE", "PGD-20", "clean"]


def test_a_legend_hides_its_curve_and_the_last_run_stays(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "two.html") as shown:
        legend = shown.locator("#radius svg .entry")
        curve = shown.locator("#radius svg g[data-run='1']:not(.entry)").first
        legend.nth(1).click()
        assert not curve.is_visible() and legend.nth(1).is_visible()
        boxes = shown.locator("#runs input")
        assert [box.is_checked() for box in boxes.all()] == [True, False]
        assert boxes.nth(0).is_disabled()
        legend.nth(0).click()
        assert shown.locator("#headline article").first.is_visible()
        legend.nth(1).click()
        assert curve.is_visible() and boxes.nth(0).is_enabled()


def test_sections_fold_up_and_links_open_them(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "two.html") as shown:
        table = shown.locator("table.attacks")
        heading = shown.get_by_role("heading", name="By attack")
        heading.click()
        assert not table.is_visible() and heading.is_visible()
        shown.get_by_role("navigation").get_by_role("link", name="Attacks").click()
        assert table.is_visible()
        shown.locator("#attacks > details > summary").press("Enter")
        assert not table.is_visible()


def test_what_is_folded_up_is_still_printed(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "two.html") as shown:
        shown.get_by_role("heading", name="By attack").click()
        shown.emulate_media(media="print")
        assert shown.locator("table.attacks").is_visible()
        for control in ("#runs", "a.csv"):
            assert not any(one.is_visible() for one in shown.locator(control).all()), control


@pytest.mark.parametrize("scripts", [True, False])
def test_a_table_is_saved_with_or_without_scripts(
    browser: Browser, folder: Path, tmp_path: Path, scripts: bool
) -> None:
    with opened(browser, folder / "two.html", java_script_enabled=scripts) as shown:
        for section in ("headline", "attacks", "classes", "cost"):
            link = shown.locator(f"#{section} a.csv").first
            with shown.expect_download() as waiting:
                link.click()
            waiting.value.save_as(tmp_path / waiting.value.suggested_filename)
        body = shown.locator("table.attacks tbody tr, table.attacks tfoot tr").all()
        seen = {row.locator("th").inner_text(): row.locator("b, del").all_inner_texts() for row in body}
    files = sorted(one.name for one in tmp_path.iterdir())
    assert files == ["by-attack.csv", "by-class.csv", "cost.csv", "differences.csv"]
    with (tmp_path / "by-attack.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, strict=True))
    for label, numbers in seen.items():
        assert [f"{float(row['accuracy']):.1%}" for row in rows if row["attack"] == label] == numbers


def test_without_scripts_there_is_nothing_to_choose_and_nothing_is_hidden(
    browser: Browser, folder: Path
) -> None:
    with opened(browser, folder / "five.html", java_script_enabled=False) as shown:
        assert not shown.locator("#runs").is_visible()
        assert shown.locator("#headline article:visible").count() == 5
        assert all(one.is_visible() for one in shown.locator("section > details > .lead").all())


@pytest.mark.parametrize("section", ["attacks", "classes"])
def test_on_a_phone_a_wide_table_says_so_and_its_first_column_stays(
    browser: Browser, folder: Path, section: str
) -> None:
    with opened(browser, folder / "five.html", PHONE) as shown:
        box = shown.locator(f"#{section} .tabled").first
        line = box.locator("tbody tr").first
        name, last = line.locator("th"), line.locator("td").last
        shown.wait_for_function("document.querySelector('#attacks .tabled.wide')")
        hint = box.evaluate("one => getComputedStyle(one, '::before').content")
        assert "Scroll sideways" in hint
        assert box.evaluate("one => getComputedStyle(one, '::before').display") == "block"
        before = name.bounding_box()
        box.locator(".scroll").evaluate("one => { one.scrollLeft = one.scrollWidth; }")
        end = last.bounding_box()
        assert before is not None and end is not None and name.bounding_box() == before
        assert before["x"] >= 0 and end["x"] + end["width"] <= PHONE, "the last column is reached"
        assert end["x"] >= before["x"] + before["width"] and wide(shown) <= PHONE
    with opened(browser, folder / "one.html", DESK) as shown:
        assert shown.locator(".tabled.wide").count() == 0


def test_on_a_phone_differences_are_lists_without_scrolling(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "five.html", PHONE) as shown:
        for box in shown.locator(".tabled:has(.stacks)").all():
            assert box.locator(".scroll").evaluate("one => one.scrollWidth <= one.clientWidth + 1")
        cell = shown.locator("#headline .stacks td:not(.self)").first
        said = cell.evaluate("one => getComputedStyle(one, '::before').content")
        assert said == '"robust, against trades (highest)"'


def test_the_color_of_the_number_is_not_that_of_its_verdict(browser: Browser, folder: Path) -> None:
    color = "all => all.map((one) => getComputedStyle(one).color)"
    with opened(browser, folder / "five.html") as shown:
        names = shown.locator("#headline article h3").all_inner_texts()
        for scheme in ("light", "dark"):
            shown.emulate_media(color_scheme=scheme)
            numbers = shown.locator("#headline .big").evaluate_all(color)
            verdicts = set(shown.locator(".verdict").evaluate_all(color))
            assert len(set(numbers)) == 5, "each is as robust as its color says"
            matches = [name for name, number in zip(names, numbers, strict=True) if number in verdicts]
            assert matches == ["soar-zero-start"], "whose number means nothing"


def test_texts_on_a_phone_have_contrast_too(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "certified.html", PHONE) as shown:
        for scheme in ("light", "dark"):
            shown.emulate_media(color_scheme=scheme)
            ratio, where = lowest_contrast(shown)
            assert ratio >= 4.5, f"{scheme}: {ratio:.2f} at {where}"
