from __future__ import annotations

import pytest

from soar.experiments.result import Cell
from soar.experiments.show.text import lines, missing
from tests.experiments.made import result


def test_numbers_stand_side_by_side_in_a_table_that_fits() -> None:
    (part,) = lines(result(row_key=""), 80)
    assert part == [
        "                             Standard                      PGD20",
        "                        paper       ours   diff   paper       ours   diff",
        "WideResNet / ADV        87.14          -      -   45.64          -      -",
        "ResNet / ADV       80.64±0.40 61.00±1.41 -19.64   42.86 30.50±0.71 -12.36",
    ]


def test_counts_are_written_without_decimals_and_accuracies_never() -> None:
    rows = {
        "ADV": {"forward": Cell(paper=11, values=(11.0,)), "minutes": Cell(paper=19.0, values=(10.7,))},
        "MMA": {"forward": Cell(values=(22.0,)), "minutes": Cell(values=(16.0,))},
    }
    (part,) = lines(result(rows=rows, unit="passes, minutes"), 80)
    assert part[2].split() == ["ADV", "11", "11", "+0", "19.00", "10.70", "-8.30"]
    assert part[3].split() == ["MMA", "-", "22", "-", "-", "16.00", "-"]
    (part,) = lines(result(rows={"SOAR": {"PGD20": Cell(paper=56.0, values=(27.0,))}}), 80)
    assert part[2].split() == ["SOAR", "56.00", "27.00", "-29.00"]


@pytest.mark.parametrize("width", [30, 50, 72, 73, 100])
def test_a_wide_table_is_broken_into_parts_that_fit(width: int) -> None:
    parts = lines(result(row_key=""), width)
    assert len(parts) == (1 if width >= 73 else 2)
    assert all(len(line) <= max(width, 47) for part in parts for line in part)
    assert all(len(part) == 4 for part in parts)


def test_columns_are_shared_evenly_among_parts() -> None:
    rows = {"SOAR": {f"PGD{k}": Cell(paper=50.0, values=(40.0,)) for k in range(7)}}
    parts = lines(result(rows=rows, row_key=""), 100)
    assert [part[0].count("PGD") for part in parts] == [4, 3]


def test_cells_with_one_reason_are_named_together() -> None:
    rows = dict(result().rows)
    rows["ResNet / SOAR"] = {
        "Standard": Cell(values=(1.0,)),
        "PGD20": Cell(missing="not trained here", command="another"),
    }
    rows["ResNet / MMA"] = {"Standard": Cell(missing="failed"), "PGD20": Cell(missing="failed")}
    assert missing(result(rows=rows)) == [
        ("WideResNet / ADV; ResNet / SOAR (PGD20)", "not trained here", ("soar reproduce made", "another")),
        ("ResNet / MMA", "failed", ()),
    ]


def test_a_table_without_rows_has_no_lines() -> None:
    assert lines(result(rows={}), 80) == []


def test_a_table_without_numbers_of_the_paper_shows_ours_alone() -> None:
    rows = {
        "SOAR": {"clean": Cell(values=(80.0, 82.0)), "trained in": Cell(values=(90.0,))},
        "PGD-1": {"clean": Cell(), "trained in": Cell(values=(30.0,))},
    }
    (part,) = lines(result(rows=rows, row_key="training", units={"trained in": "seconds"}), 80)
    assert part == [
        "training        clean   trained in",
        "",
        "SOAR       81.00±1.41     1:30 min",
        "PGD-1               -         30 s",
    ]
