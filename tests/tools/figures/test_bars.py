from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from tools.figures.bars import bars

from soar.experiments.result import Cell
from tests.experiments.made import result

SPACE = "{http://www.w3.org/2000/svg}"


def drawn(**changes: object) -> ElementTree.Element:
    return ElementTree.fromstring(bars(result(**{"name": "A & B <table>", **changes})))


def widths(root: ElementTree.Element, which: str) -> dict[str, float]:
    found = {}
    for rect in root.iter(f"{SPACE}rect"):
        title = rect.find(f"{SPACE}title")
        if title is not None and title.text and f", {which}:" in title.text:
            found[title.text.partition(f", {which}:")[0]] = float(rect.get("width", "nan"))
    return found


def test_bars_are_as_long_as_their_numbers() -> None:
    root = drawn()
    paper, ours = widths(root, "paper"), widths(root, "ours")
    assert set(paper) == {
        f"{row} / ADV, {column}" for row in ("WideResNet", "ResNet") for column in ("Standard", "PGD20")
    }
    assert set(ours) == {"ResNet / ADV, Standard", "ResNet / ADV, PGD20"}, "what was not measured has no bar"
    assert paper["ResNet / ADV, Standard"] == pytest.approx(1.6 * 80.64, abs=0.06)
    assert ours["ResNet / ADV, PGD20"] == pytest.approx(1.6 * 30.5, abs=0.06)


def test_numbers_without_a_scale_are_drawn_to_the_columns_largest() -> None:
    rows = {"a": {"x": Cell(paper=10.0, values=(5.0,))}, "b": {"x": Cell(paper=20.0, values=(0.0,))}}
    root = ElementTree.fromstring(bars(result(rows=rows, unit="loss")))
    assert widths(root, "paper") == {"a, x": 80.0, "b, x": 160.0}
    assert widths(root, "ours") == {"a, x": 40.0, "b, x": 0.5}, "zero is still seen"


def test_quantities_that_cannot_be_compared_are_drawn_to_the_rows_largest() -> None:
    rows = {
        "loss": {"value": Cell(paper=10.0, values=(5.0,))},
        "ratio": {"value": Cell(paper=1.0, values=(0.5,))},
    }
    root = ElementTree.fromstring(bars(result(rows=rows, unit="loss or ratio")))
    assert set(widths(root, "paper").values()) == {160.0} and set(widths(root, "ours").values()) == {80.0}


def test_wide_tables_are_drawn_in_bands_and_everything_is_inside() -> None:
    rows = {"SOAR": {f"APGD-DLR-T@{k}/255": Cell(paper=100.0, values=(99.0,)) for k in range(12)}}
    root = drawn(rows=rows)
    _, _, wide, high = map(float, root.get("viewBox", "").split())
    rects = [
        (float(r.get("x", 0)), float(r.get("y", 0)), float(r.get("width", 0)))
        for r in root.iter(f"{SPACE}rect")
    ]
    assert max(x + w for x, _, w in rects) < wide < 760 and max(y for _, y, _ in rects) < high
    assert len({y for _, y, _ in rects}) == 5, "two bands of a paper and an own line, and the legend"


def test_a_file_of_its_own_knows_its_colors_in_light_and_dark() -> None:
    text = bars(result())
    assert "prefers-color-scheme:dark" in text and 'width="100%"' not in text
    assert set(re.findall(r"var\((--[a-z0-9-]+)\)", text)) <= set(re.findall(r"(--series-\d):#", text))
    assert bars(result(rows={})).startswith("<svg")


def test_the_spread_is_that_over_trainings_where_there_are_several() -> None:
    several = bars(result())
    assert "± one standard deviation" in several
    one = {"a": {"x": Cell(paper=50.0, values=(50.0,), low=40.0, high=60.0)}}
    single = bars(result(rows=one, seeds=1))
    assert "with the 95% interval" in single
    x = float(re.findall(r'<rect x="([\d.]+)"', single)[0])
    start, end = map(float, re.findall(r'M([\d.]+) [\d.]+H([\d.]+)"', single)[0])
    assert (start - x, end - x) == pytest.approx((64.0, 96.0), abs=0.11)
