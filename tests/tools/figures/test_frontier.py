from __future__ import annotations

from pathlib import Path

import pytest
from tools.figures.command import carried_out
from tools.figures.frontier import Point

from soar.experiments.result import Cell, Result
from tests.tools.figures.made import keep, x_of, y_of
from tools.figures import frontier


def study() -> Result:
    numbers = {
        "5 min / A": 30.0,
        "5 min / B": 20.0,
        "10 min / A": 36.0,
        "20 min / B": 35.0,
        "40 min / A": None,
    }
    rows = {}
    for name, accuracy in numbers.items():
        rows[name] = {
            "worst case": Cell(missing="not yet")
            if accuracy is None
            else Cell(values=(accuracy,), low=accuracy - 3, high=accuracy + 4)
        }
    return Result(name="frontier", data="cifar10, linf 8/255", rows=rows)


def test_points_are_the_measured_rows_with_their_intervals() -> None:
    assert frontier.points(study()) == [
        Point("A", 5.0, 30.0, 27.0, 34.0),
        Point("B", 5.0, 20.0, 17.0, 24.0),
        Point("A", 10.0, 36.0, 33.0, 40.0),
        Point("B", 20.0, 35.0, 32.0, 39.0),
    ]


def test_the_line_leaves_out_what_costs_more_and_reaches_less() -> None:
    rows = frontier.table(frontier.points(study()))
    assert [(row["training"], row["on the line"]) for row in rows] == [
        ("A", "yes"),
        ("B", ""),
        ("A", "yes"),
        ("B", ""),
    ]


def test_arms_are_lines_and_gray_ones_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = keep(monkeypatch, frontier)
    frontier.draw(study(), Path(), strong=["A"])
    (axes,) = figure.axes
    best, arm = axes.lines[0], axes.lines[1]
    assert x_of(best) == x_of(arm) == [5.0, 10.0] and y_of(arm) == [30.0, 36.0]
    assert [note.get_text() for note in axes.texts] == ["B"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["5", "10", "20"]


def test_the_command_draws_beside_the_file_and_a_mistake_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study().save(tmp_path / "study.json")
    assert carried_out(frontier.act, [str(tmp_path / "study.json"), "A"]) == 0
    assert (tmp_path / "study.svg").exists() and "on the line" in capsys.readouterr().out
    assert carried_out(frontier.act, [str(tmp_path / "study.json"), "C"]) == 2
    assert carried_out(frontier.act, []) == 2
    wrong, missing = capsys.readouterr().err.splitlines()
    assert wrong.startswith("soar: ") and "'C'" in wrong
    assert missing == "soar: expected a file: python -m tools.figures.frontier STUDY.json ARM ..."
