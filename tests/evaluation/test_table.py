from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import torch
from rich.console import Console

from soar.evaluation.compare import compare
from soar.evaluation.table import comparison_table, save_picture, table
from tests.evaluation.test_assessment import LABELS, assessment


def text(renderable: object) -> list[str]:
    written = io.StringIO()
    Console(width=120, file=written).print(renderable)
    return [line.rstrip() for line in written.getvalue().splitlines()]


def test_a_table_has_a_row_for_clean_each_attack_and_the_worst_case() -> None:
    lines = text(table(assessment()))
    assert lines[0] == "net on 5 images of things, linf 8/255"
    rows = [line.split() for line in lines if " to " in line]
    assert [row[0] for row in rows] == ["clean", "A", "B", "worst"]
    assert rows[1][1:] == ["40.0%", "11.8", "to", "76.9", "4.0", "3.0", "1.5"]
    assert rows[3][2:] == ["20.0%", "3.6", "to", "62.4", "9.0", "6.0", "3.0"]


def test_names_with_brackets_are_shown_as_they_are() -> None:
    found = replace(assessment(), model="runs/[red]a", data="[/b]")
    assert text(table(found))[0] == "runs/[red]a on 5 images of [/b], linf 8/255"
    assert "runs/[red]a (first)" in text(comparison_table(compare(found, found)))[0]


def test_a_comparison_shows_both_the_difference_and_what_is_left_out() -> None:
    first = assessment()
    alone = replace(first.attacks[0], label="C")
    second = replace(assessment(2), model="other", labels=LABELS[torch.tensor([2, 3, 4, 0, 1])])
    second = replace(second, attacks=(*second.attacks, alone))
    lines = text(comparison_table(compare(first, second)))
    assert lines[0] == "net (first) and other (second) on 3 images of things, linf 8/255"
    rows = [line.split() for line in lines if " to " in line]
    assert [row[0] for row in rows] == ["clean", "A", "B", "worst"]
    # 1.96 sqrt(0 + 1 + 1 - 1/3)/3 = 84.3 points to both sides, within the possible
    assert rows[0][1:] == ["66.7%", "100.0%", "-33.3", "-100.0", "to", "+51.0", "0", "1"]
    assert "4 images that only one of them holds are left out" in lines
    assert "not run on both in the same way: C" in lines
    lines = text(comparison_table(compare(first, first)))
    assert not any("left out" in line or "same way" in line for line in lines)


def test_pictures_need_nothing_from_the_network(tmp_path: Path) -> None:
    console = Console(record=True, file=io.StringIO(), width=80)
    console.print(table(assessment()))
    save_picture(console, tmp_path / "a.svg")
    picture = (tmp_path / "a.svg").read_text()
    links = re.findall(r"https?://[^\s\"')]+", picture)
    assert set(links) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
    ElementTree.fromstring(picture)
    assert "worst" in picture
