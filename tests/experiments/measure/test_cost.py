"""What a step costs, on a network of two channels, and numbers of the theory."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from soar.experiments.loading import load
from soar.experiments.measure import measure
from soar.experiments.measure.cost import cost
from soar.experiments.measure.task import Task

ROWS = {row.name: row for row in load("cost", scale="smoke").rows}


def found(row: str, column: str) -> float:
    options = ROWS[row].columns[column].options
    return cost(Task({"measurement": {"kind": "cost", "options": options}})).value


@pytest.mark.parametrize(
    ("row", "passes"), [("Standard", (1, 1)), ("ADV", (11, 11)), ("FOAR", (1, 2)), ("SOAR", (3, 4))]
)
def test_passes_are_those_that_the_paper_counts(row: str, passes: tuple[int, int]) -> None:
    assert (found(row, "forward"), found(row, "backward")) == passes
    printed = ROWS[row].paper
    assert (printed["forward"], printed["backward"]) == passes


def test_times_are_relative_to_pgd_training() -> None:
    assert found("ADV", "relative to ADV") == 1.0
    assert 0 < found("Standard", "relative to ADV") < 1
    assert found("SOAR", "minutes per epoch") > 0


def test_the_papers_minutes_are_there() -> None:
    rows = load("cost", scale="paper").rows
    assert {row.name: row.paper["minutes per epoch"] for row in rows} == {
        "Standard": None,
        "ADV": 19,
        "TRADES": 39.6,
        "MART": 29,
        "MMA": None,
        "FOAR": None,
        "SOAR": 26.5,
    }


def test_every_row_has_a_number_and_those_of_proposition_1_are_exact() -> None:
    found = {}
    for row in load("theory", scale="small").rows:
        one = row.columns["value"]
        payload = {
            "network": "",
            "measurement": {"kind": one.kind, "options": one.options},
            "examples": 0,
            "seed": 0,
            "sources": {},
            "cache": str(Path()),
        }
        found[row.name] = measure(payload)["value"]
    assert all(math.isfinite(value) for value in found.values())
    printed, corrected = (value for name, value in found.items() if name.startswith("Proposition 1"))
    # 1/2 (rho^2 + 1)^2 is the maximum; the bounds are sqrt(2/pi) of it and all of it, each with l and -1/2.
    assert printed == pytest.approx(math.sqrt(2 / math.pi), abs=1e-3)
    assert corrected == pytest.approx(1.0, abs=1e-9)
    second = next(value for name, value in found.items() if "second-order" in name)
    assert second == pytest.approx(1.0, abs=1e-12)
    faded = next(value for name, value in found.items() if "penalty with 16 times" in name)
    assert faded < 1e-9
