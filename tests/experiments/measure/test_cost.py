"""What a step costs, on a network of two channels."""

from __future__ import annotations

import pytest
from soar.experiments.measuring.cost import cost
from soar.experiments.measuring.subject import Subject

from soar.experiments.planning.experiments import experiment
from soar.experiments.planning.scales import SCALES

ROWS = {row.name: row for row in experiment("cost", SCALES["smoke"]).rows}


def found(row: str, column: str) -> float:
    options = ROWS[row].columns[column].options
    return cost(Subject({"measurement": {"kind": "cost", "options": options}}, lambda _: None)).value


@pytest.mark.parametrize(
    ("row", "passes"), [("Standard", (1, 1)), ("ADV", (11, 11)), ("FOAR", (1, 2)), ("SOAR", (3, 4))]
)
def test_passes_are_those_that_the_paper_counts(row: str, passes: tuple[int, int]) -> None:
    assert (found(row, "forward"), found(row, "backward")) == passes
    printed = experiment("cost", SCALES["smoke"]).table.row(row).values
    assert (printed["forward"], printed["backward"]) == passes


def test_times_are_relative_to_pgd_training() -> None:
    assert found("ADV", "relative to ADV") == 1.0
    assert 0 < found("Standard", "relative to ADV") < 1
    assert found("SOAR", "minutes per epoch") > 0


def test_the_papers_minutes_are_there() -> None:
    table = experiment("cost", SCALES["paper"]).table
    assert {row.name: row.values["minutes per epoch"] for row in table.rows} == {
        "Standard": None,
        "ADV": 19,
        "TRADES": 39.6,
        "MART": 29,
        "MMA": None,
        "FOAR": None,
        "SOAR": 26.5,
    }
