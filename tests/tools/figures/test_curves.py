from __future__ import annotations

import re

from tools.figures.curves import curves

from soar.experiments.result import Cell, Result
from tests.experiments.made import result


def sweep(seeds: int = 1) -> Result:
    def row(clean: float, robust: float | None) -> dict[str, Cell]:
        measured = Cell(paper=45.0)
        if robust is not None:
            values = (robust, robust + 2.0)[:seeds]
            measured = Cell(paper=45.0, values=values, low=robust - 3.0, high=robust + 4.0)
        without = Cell(paper=clean, values=(clean - 20.0,) * seeds)
        return {"Standard": without, "FGSM": Cell(paper=50.0), "PGD20": measured}

    # In the paper the largest value comes first.
    rows = {"15": row(72.8, 25.0), "3": row(80.2, None), "0.5": row(84.0, 9.6)}
    return result(name="trades", row_key="beta", seeds=seeds, rows=rows)


def labels(drawn: str) -> list[str]:
    """What the points show when pointed at."""
    return re.findall(r"<title>([^<]* at [^<]*)</title>", drawn)


def test_every_point_stands_where_its_parameter_is() -> None:
    found = labels(curves(sweep()))
    assert [one for one in found if one.startswith("clean, paper")] == [
        "clean, paper: 84.0% at 0.5",
        "clean, paper: 80.2% at 3",
        "clean, paper: 72.8% at 15",
    ]
    assert "clean, ours: 64.0% at 0.5" in found


def test_what_was_not_measured_leaves_a_gap_and_intervals_are_told() -> None:
    found = labels(curves(sweep()))
    assert [one for one in found if one.startswith("PGD-20, ours")] == [
        "PGD-20, ours: 9.6% (95% interval 6.6% to 13.6%) at 0.5",
        "PGD-20, ours: 25.0% (95% interval 22.0% to 29.0%) at 15",
    ]
    assert not any("FGSM" in one for one in found)


def test_bands_of_several_seeds_are_standard_deviations() -> None:
    found = labels(curves(sweep(seeds=2)))
    assert "PGD-20, ours: 26.0% (one standard deviation 24.6% to 27.4%) at 15" in found
