"""The page as a whole: nothing from elsewhere, nothing unescaped, nothing missing without a word."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import resources
from itertools import pairwise

import pytest

from soar.evaluation import Note
from soar.report.content import RunContent
from soar.report.page import page
from soar.report.write import MARK
from tests.report.made import CLASSES, HOSTILE, bare, certified, hostile, made_content
from tests.report.reading import Element, read

SECTIONS = (
    "headline", "diagnosis", "attacks", "radius", "gallery", "surfaces", "classes", "training", "cost",
    "provenance",
)  # fmt: skip


def scripts(root: Element) -> list[Element]:
    """The elements that run, not those that hold data."""
    return [one for one in root.all("script") if one.attributes.get("type") != "application/json"]


@pytest.mark.parametrize("runs", [1, 2, 5])
def test_all_sections_are_there_and_linked(runs: int) -> None:
    root = read(page(made_content(runs), title="A report"))
    assert [one.attributes["id"] for one in root.all("section")] == list(SECTIONS)
    assert [one.attributes["href"] for one in root.all("nav")[0].all("a")] == [
        f"#{name}" for name in SECTIONS
    ]
    assert [one.text for one in root.all("h1")] == ["A report"] == [one.text for one in root.all("title")[:1]]
    assert root.all("html")[0].attributes["lang"] == "en"
    assert not root.all(kind="missing") or runs == 5  # of which the last is not diagnosed


def test_sections_fold_up_and_are_open_without_a_script() -> None:
    for section in read(page(made_content(2))).all("section"):
        (folded,) = (one for one in section.children if isinstance(one, Element))
        assert folded.name == "details" and "open" in folded.attributes
        assert [one.name for one in folded.all("summary")[0].all()] == ["h2"]


def test_several_runs_can_be_chosen_from_and_are_all_shown_without_a_script() -> None:
    assert not read(page(made_content(1))).all("fieldset")
    root = read(page(made_content(3)))
    chooser = root.by_id("runs")
    assert "hidden" in chooser.attributes and not root.all(kind="off")
    assert [one.text for one in chooser.all("label")] == ["pgd-10", "soar-zero-start", "trades"]
    assert [one.attributes["value"] for one in chooser.all("input")] == ["0", "1", "2"]
    for name in SECTIONS:
        places = {one.attributes.get("data-run") for one in root.by_id(name).all()} - {None}
        assert places == {"0", "1", "2"}, name


def test_nothing_comes_from_elsewhere() -> None:
    text = page(made_content(2))
    root = read(text)
    for one in root.all():
        for name in ("src", "href", "xlink:href", "action", "data", "srcset"):
            assert (one.attributes.get(name) or "#").startswith(("#", "data:image/", "data:text/csv")), one
    assert not re.search(r"@import|url\((?!['\"]?(#|data:))", text)
    (script,) = scripts(root)
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|innerHTML|eval\(", script.text)


def test_the_browser_is_told_to_refuse_everything_else() -> None:
    root = read(page(made_content(1)))
    (policy,) = (
        one.attributes["content"] or ""
        for one in root.all("meta")
        if one.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy and "script-src 'sha256-" in policy


@pytest.mark.parametrize("runs", [1, 2])
def test_headings_are_in_order_and_names_are_given_once(runs: int) -> None:
    root = read(page(made_content(runs)))
    levels = [int(one.name[1]) for one in root.all() if re.fullmatch("h[1-6]", one.name)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))
    names = [one.attributes["id"] for one in root.all() if "id" in one.attributes]
    assert len(names) == len(set(names))
    for one in root.all():
        for key in ("aria-labelledby", "for"):
            assert one.attributes.get(key, names[0]) in names
    assert all(one.attributes.get("alt") for one in root.all("img"))
    assert all(one.all("caption") for one in root.all("table"))


def test_hostile_texts_come_out_as_text() -> None:
    text = page([hostile(run) for run in made_content(2)], title=HOSTILE)
    root = read(text)
    assert len(scripts(root)) == 1 and root.all("h1")[0].text == HOSTILE
    assert not [one for one in root.all() if any(name.startswith("on") for name in one.attributes)]
    assert "<img src=x" not in text and "<script>alert" not in text
    for section in root.all("section"):
        assert HOSTILE[:20] in section.text or HOSTILE[:8] in section.text, section.attributes["id"]
    for one in root.all("script", "frames"):
        assert HOSTILE in json.loads(one.text)["images"][0][0]["predicted"]


@pytest.mark.parametrize("others", [0, 1])
def test_missing_parts_are_left_out_with_a_word(others: int) -> None:
    first, second = made_content(2)
    root = read(page([bare(second), *[first][:others]]))
    for name in ("diagnosis", "gallery", "surfaces", "training", "provenance"):
        assert root.by_id(name).all(kind="missing"), name
    assert "not diagnosed" in root.by_id("headline").text
    assert "soar diagnose" in root.by_id("diagnosis").text


def test_a_run_without_attacks_is_shown() -> None:
    (run,) = made_content(1)
    root = read(page([bare(replace(run, assessment=replace(run.assessment, attacks=())))]))
    assert "83.6%" in root.by_id("headline").text


def test_a_run_without_examples_is_shown() -> None:
    (run,) = made_content(1)
    empty = run.assessment.select(run.assessment.index[:0])
    assert "0 images" in read(page([bare(replace(run, assessment=empty))])).by_id("headline").text


def test_five_runs_stay_below_five_megabytes() -> None:
    assert len(page(made_content(5)).encode()) < 5e6


def test_the_page_is_known_as_a_report() -> None:
    text = page(made_content(1))
    assert MARK in text[:2000] and text.startswith("<!doctype html>")
    assert page(made_content(1)) == text


def test_every_class_that_is_styled_is_there() -> None:
    first, *others = made_content(5)
    odd = replace(first, assessment=replace(first.assessment, notes=(Note("random", "random outputs"),)))
    fewer = replace(first, assessment=replace(first.assessment, attacks=first.assessment.attacks[:1]))
    pages = [page([certified(odd), *others]), page([bare(others[0])]), page([odd, fewer])]
    used = {name for text in pages for one in read(text).all() for name in one.classes}
    assets = resources.files("soar.report").joinpath("assets")
    style = re.sub(r"/\*.*?\*/", "", assets.joinpath("page.css").read_text(), flags=re.DOTALL)
    styled = set(re.findall(r"\.([a-z][\w-]*)(?=[^{}]*\{)", style))
    made = set(re.findall(r"[a-z]+", assets.joinpath("page.js").read_text()))
    assert len(styled) > 50 and styled - used - made == {"inconclusive"}  # which no made run is


def test_two_classes_and_many_classes_are_shown() -> None:
    (run,) = made_content(1)
    many = tuple(f"class {k}" for k in range(1000))
    for names in (CLASSES[:2], many):
        assert read(page([_with_classes(run, names)])).by_id("gallery").all("article")


def _with_classes(run: RunContent, names: tuple[str, ...]) -> RunContent:
    """Take or add classes that the model gives the same probability."""
    gallery = tuple(
        replace(
            one,
            label=k % 2,
            frames=tuple(replace(f, probabilities=(1 / len(names),) * len(names)) for f in one.frames),
        )
        for k, one in enumerate(run.gallery)
    )
    broken = tuple(replace(run.class_outcomes[0], label=k, into=((0, 1),)) for k in range(len(names)))
    surfaces = tuple(replace(one, label=0) for one in run.surfaces)
    return replace(run, classes=names, gallery=gallery, class_outcomes=broken, surfaces=surfaces)
