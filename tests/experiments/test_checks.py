from __future__ import annotations

import math
from typing import Any

import pytest

from soar.errors import UserError
from soar.experiments.checks import ClaimCheck, Decision, Rows, decide
from soar.experiments.result import Cell


def cell(value: float, half: float = 1.0) -> Cell:
    return Cell(values=(value,), low=value - half, high=value + half)


def table(**rows: tuple[float, ...]) -> Rows:
    """Make a table of columns A, B, C; every number is known to 1, a difference to sqrt(2) = 1.41."""
    return {
        name: {head: cell(value) for head, value in zip("ABC", row, strict=False)}
        for name, row in rows.items()
    }


ROWS = table(high=(50.0, 40.0, 30.0), low=(45.0, 20.0, 19.0), alike=(49.0, 41.0, 29.5))
ALL = ("low", "alike", "high")


def look(numbers: Rows = ROWS, /, **fields: Any) -> Decision:
    return decide([ClaimCheck(**fields)], numbers)


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"rows": "high", "above": "low", "columns": "A"}, "held"),
        ({"rows": "low", "above": "high", "columns": "A"}, "not held"),
        ({"rows": "high", "above": "alike", "columns": "A"}, "undecided"),
        ({"rows": "high", "above": "low", "columns": "A", "by": 3.5}, "held"),  # 5 - 1.41 = 3.59
        ({"rows": "high", "above": "low", "columns": "A", "by": 3.7}, "undecided"),
        ({"rows": "high", "above": "low", "columns": "A", "by": 6.5}, "not held"),
        ({"rows": "alike", "above": "high", "columns": "A", "by": -2.5}, "held"),
        ({"rows": "high", "above": "low", "columns": ("A", "B", "C")}, "held"),
        ({"rows": "high", "above": ("low", "high"), "columns": "A"}, "held"),
        ({"rows": "high", "above": ALL, "columns": "A"}, "undecided"),
        ({"rows": "low", "above": ALL, "columns": "A"}, "not held"),
        ({"rows": ALL, "above": "low", "columns": ("A", "B", "C")}, "held"),
        ({"rows": ALL, "above": "high", "columns": "A"}, "not held"),
        ({"rows": "high", "near": "alike", "columns": "A", "points": 2.5}, "held"),  # 1 + 1.41 = 2.41
        ({"rows": "alike", "near": "high", "columns": "A", "points": 2.5}, "held"),
        ({"rows": "high", "near": "alike", "columns": "A", "points": 2.3}, "undecided"),
        ({"rows": "high", "near": "low", "columns": "A", "points": 3.5}, "not held"),
        ({"rows": "low", "near": "high", "columns": "A", "points": 3.5}, "not held"),
        ({"rows": "low", "near": "high", "columns": "A", "share": 0.13}, "held"),  # 6.5 of 50, 5 + 1.41
        ({"rows": "low", "near": "high", "columns": "A", "share": 0.12}, "undecided"),
        ({"rows": "low", "columns": "B", "near_columns": "C", "points": 2.5}, "held"),
        ({"rows": "low", "columns": "A", "near_columns": "C", "points": 2.5}, "not held"),
        ({"rows": "high", "columns": "A", "over": 48.9}, "held"),
        ({"rows": "high", "columns": "A", "over": 49.1}, "undecided"),
        ({"rows": "high", "columns": "A", "over": 51.1}, "not held"),
        ({"rows": "high", "columns": "A", "under": 51.1}, "held"),
        ({"rows": "high", "columns": "A", "under": 50.9}, "undecided"),
        ({"rows": "high", "columns": "A", "under": 48.9}, "not held"),
        ({"rows": "high", "columns": "A", "over": 48.9, "under": 51.1}, "held"),
        ({"rows": "high", "columns": "A", "over": 48.9, "under": 48.9}, "not held"),
        ({"rows": "low", "lose_more_than": "high", "between": ("A", "B")}, "held"),
        ({"rows": "high", "lose_more_than": "low", "between": ("A", "B")}, "not held"),
        ({"rows": "high", "lose_more_than": "alike", "between": ("A", "C")}, "undecided"),
        ({"rows": "low", "lose_more_than": ALL, "between": ("A", "B")}, "held"),
        ({"rows": "low", "columns": "A", "above_columns": "B"}, "held"),
        ({"rows": "low", "columns": "B", "above_columns": "A"}, "not held"),
        ({"rows": "low", "columns": "B", "above_columns": "C"}, "undecided"),
        ({"rows": "low", "columns": "C", "above_columns": "B", "by": -3.0}, "held"),
        ({"rows": "low", "columns": "C", "above_columns": "A", "by": -3.0}, "not held"),
        ({"rows": "low", "columns": "C", "above_columns": "B", "by": -1.0}, "undecided"),
        ({"peak": ("low", "high", "low"), "columns": "A"}, "held"),
        ({"peak": ("high", "low", "alike"), "columns": "A"}, "not held"),
        ({"peak": ("low", "high", "alike"), "columns": "A"}, "undecided"),
        ({"peak": ("low", "alike", "low", "high", "low"), "columns": "B"}, "held"),
    ],
)
def test_a_check_is_held_not_held_or_undecided_by_its_interval(fields: dict[str, Any], verdict: str) -> None:
    assert look(**fields).verdict == verdict


HELD, NOT, OPEN = (ClaimCheck(rows="high", columns="A", over=over) for over in (40.0, 60.0, 50.0))


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ((HELD, HELD), "held"),
        ((HELD, NOT), "not held"),
        ((HELD, OPEN), "undecided"),
        ((OPEN, NOT), "not held"),
        ((), "undecided"),
    ],
)
def test_all_checks_of_a_claim_must_hold(checks: tuple[ClaimCheck, ...], verdict: str) -> None:
    assert decide(checks, ROWS).verdict == verdict


def test_the_numbers_are_shown() -> None:
    higher = look(rows="high", above="low", columns="A")
    assert higher.why == "high minus low under A is 5.00 (3.59 to 6.41)"
    falls = look(rows="low", columns="A", above_columns="B")
    assert falls.why == "low: A minus B is 25.00 (23.59 to 26.41)"
    # high and alike lose 10 and 8 from A to B, each known to 1.41, so that their difference is known to 2.
    loses = look(rows="high", lose_more_than="alike", between=("A", "B"))
    assert loses.why == "high loses 10.00 and alike 8.00 from A to B: more by 2.00 (0.00 to 4.00)"
    level = look(rows="high", columns="A", under=60)
    assert level.why == "high under A is 50.00 (49.00 to 51.00), to be under 60"
    near = look(rows="high", near="low", columns="A", points=7.0)
    assert near.why == "high minus low under A is 5.00 (3.59 to 6.41), allowed 7"
    peak = look(peak=("high", "low", "alike"), columns="A")
    assert peak.why.startswith("none of 1; nearest: not held in 2 of 2 comparisons: low minus high under A")
    numbers = look(table(**{"9": (5.0,), "3": (1.0,)}), rows="9", above="3", columns="A")
    assert numbers.why.startswith("row 9 minus row 3")
    quantities = {"one": {"value": cell(5.0)}, "other": {"value": cell(1.0)}}
    assert look(quantities, rows="one", above="other", columns="value").why.startswith("one minus other is 4")


def test_several_comparisons_show_what_decides() -> None:
    held = look(rows="high", above="low", columns=("A", "B", "C"))
    assert held.why == "all 3 comparisons; closest: high minus low under A is 5.00 (3.59 to 6.41)"
    failed = look(rows="low", above="high", columns=("A", "B", "C")).why
    assert failed.startswith("not held in 3 of 3 comparisons: low minus high under B is -20.00")
    assert failed.endswith("; and 1 more")
    doubtful = look(rows="alike", above="high", columns=("A", "B", "C")).why
    assert doubtful.startswith("undecided in 3 of 3 comparisons: alike minus high under A is -1.00")


def test_what_is_missing_leaves_it_undecided_and_says_why() -> None:
    rows = {"SOAR": {"PGD20": cell(50), "PGD1000": Cell(missing="too long at this scale")}}
    found = look(rows, rows="SOAR", columns="PGD1000", above_columns="PGD20", by=-2.0)
    assert found.verdict == "undecided"
    assert found.why == "not measured: SOAR under PGD1000 (too long at this scale)"
    for fields in (
        {"rows": "SOAR", "above": "ADV", "columns": "PGD20"},
        {"rows": "SOAR", "near": "ADV", "columns": "PGD20", "points": 1.0},
        {"rows": "ADV", "columns": "PGD20", "over": 1.0},
        {"rows": "SOAR", "lose_more_than": "ADV", "between": ("PGD20", "PGD20")},
    ):
        found = look(rows, **fields)
        assert (found.verdict, found.why) == (
            "undecided",
            "not measured: ADV under PGD20 (not part of this result)",
        )


def test_one_failure_decides_even_if_something_is_missing() -> None:
    rows = {"SOAR": {"A": cell(10)}, "ADV": {"A": cell(20), "B": cell(20)}, "MMA": {"A": cell(15)}}
    assert look(rows, rows="SOAR", above="ADV", columns=("A", "B")).verdict == "not held"
    # Of a peak, one row that is above both ends decides.
    assert look(rows, peak=("SOAR", "absent", "ADV", "MMA"), columns="A").verdict == "held"


def test_a_number_that_is_none_decides_nothing() -> None:
    rows = {"SOAR": {"A": Cell(values=(math.nan,))}, "ADV": {"A": cell(20)}}
    assert look(rows, rows="SOAR", above="ADV", columns="A").why == "not a number: SOAR under A"


def test_without_an_interval_the_number_decides_and_says_so() -> None:
    rows = {
        "one": {"A": Cell(values=(2.0,))},
        "other": {"A": Cell(values=(1.0,))},
        "same": {"A": Cell(values=(1.0,))},
    }
    found = look(rows, rows="one", above="other", columns="A")
    assert found.verdict == "held" and "no interval known" in found.why
    assert look(rows, rows="same", above="other", columns="A").verdict == "undecided"


def test_columns_of_one_row_are_compared_seed_by_seed() -> None:
    rows = {
        "SOAR": {"A": Cell(values=(50.0, 40.0, 60.0)), "B": Cell(values=(49.0, 39.0, 59.0))},
        "ADV": {"A": Cell(values=(49.0, 39.0, 59.0))},
    }
    assert look(rows, rows="SOAR", columns="A", above_columns="B").verdict == "held"
    # Two rows are two training runs, and these vary by far more than they differ.
    assert look(rows, rows="SOAR", above="ADV", columns="A").verdict == "undecided"


def test_groups_stand_for_their_rows_and_columns() -> None:
    groups = {"others": ("low", "alike"), "heads": ("A", "B")}
    check = ClaimCheck(rows="high", above=("others",), columns=("heads", "C"))
    found = check.named(ALL, "ABC", groups, "mine")
    assert (found.rows, found.above, found.columns) == (("high",), ("low", "alike"), ("A", "B", "C"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rows": "hihg", "above": "low", "columns": "A"}, "unknown row 'hihg'.*mine: claims.checks.rows"),
        (
            {"rows": "high", "above": "lo", "columns": "A"},
            "unknown row 'lo'.*checks.above.*did you mean 'low'",
        ),
        ({"rows": "high", "above": "low", "columns": "D"}, "unknown column 'D'.*checks.columns"),
        ({"rows": "high", "lose_more_than": "low", "between": ("A", "D")}, "unknown column 'D'.*between"),
        ({"rows": "high", "columns": "A"}, "mine: got a check that compares nothing"),
        ({"rows": "high", "above": "high", "columns": "A"}, "compares nothing"),
        ({"rows": "high", "lose_more_than": "low"}, "compares nothing"),
        ({"peak": ("high", "low"), "columns": "A"}, "compares nothing"),
    ],
)
def test_a_check_of_what_is_not_there_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        ClaimCheck(**fields).named(ALL, "ABC", {}, "mine")
    assert "\n" not in str(refused.value)
