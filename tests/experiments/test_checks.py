from __future__ import annotations

import math

import pytest
from soar.experiments.claims.checks import Above, All, At, Check, Level, LosesMore, Near, Rows, Some
from soar.experiments.claims.phrases import falls, higher, highest, keeps, loses_most, lowest, peak, rising
from soar.experiments.table_result import Cell


def cell(value: float, half: float = 1.0) -> Cell:
    return Cell(values=(value,), low=value - half, high=value + half)


def table(**rows: tuple[float, ...]) -> Rows:
    """Make a table of columns A, B, C; every number is known to 1, a difference to sqrt(2) = 1.41."""
    return {
        name: {head: cell(value) for head, value in zip("ABC", row, strict=False)}
        for name, row in rows.items()
    }


ROWS = table(high=(50.0, 40.0, 30.0), low=(45.0, 20.0, 19.0), alike=(49.0, 41.0, 29.5))


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        (Above(At("high", "A"), At("low", "A")), "held"),
        (Above(At("low", "A"), At("high", "A")), "not held"),
        (Above(At("high", "A"), At("alike", "A")), "undecided"),
        (Above(At("high", "A"), At("low", "A"), by=3.5), "held"),  # 5 - 1.41 = 3.59
        (Above(At("high", "A"), At("low", "A"), by=3.7), "undecided"),
        (Above(At("high", "A"), At("low", "A"), by=6.5), "not held"),
        (Near(At("high", "A"), At("alike", "A"), points=2.5), "held"),  # 1 + 1.41 = 2.41
        (Near(At("alike", "A"), At("high", "A"), points=2.5), "held"),
        (Near(At("high", "A"), At("alike", "A"), points=2.3), "undecided"),
        (Near(At("high", "A"), At("low", "A"), points=3.5), "not held"),
        (Near(At("low", "A"), At("high", "A"), points=3.5), "not held"),
        (Near(At("low", "A"), At("high", "A"), share=0.13), "held"),  # 6.5 of 50, 5 + 1.41 = 6.41
        (Near(At("low", "A"), At("high", "A"), share=0.12), "undecided"),
        (Level(At("high", "A"), over=48.9), "held"),
        (Level(At("high", "A"), over=49.1), "undecided"),
        (Level(At("high", "A"), over=51.1), "not held"),
        (Level(At("high", "A"), under=51.1), "held"),
        (Level(At("high", "A"), under=50.9), "undecided"),
        (Level(At("high", "A"), under=48.9), "not held"),
        (LosesMore("low", "high", "A", "B"), "held"),
        (LosesMore("high", "low", "A", "B"), "not held"),
        (LosesMore("high", "alike", "A", "C"), "undecided"),
        (higher("high", "low", "A", "B", "C"), "held"),
        (higher("high", "low", "A", by=-2.0), "held"),
        (higher("alike", "high", "A", by=-2.5), "held"),
        (highest("high", ("low", "high"), "A"), "held"),
        (highest("high", ("low", "alike", "high"), "A"), "undecided"),
        (highest("low", ("low", "alike", "high"), "A"), "not held"),
        (lowest("low", ("low", "alike", "high"), "A", "B", "C"), "held"),
        (lowest("high", ("low", "alike", "high"), "A"), "not held"),
        (rising(("low", "high"), "A", "B", "C"), "held"),
        (rising(("low", "alike", "high"), "A"), "undecided"),
        (rising(("high", "low"), "A"), "not held"),
        (falls("low", "A", "B"), "held"),
        (falls("low", "B", "A"), "not held"),
        (falls("low", "B", "C"), "undecided"),
        (keeps("low", "B", "C", 3.0), "held"),
        (keeps("low", "A", "C", 3.0), "not held"),
        (keeps("low", "B", "C", 1.0), "undecided"),
        (loses_most("low", ("low", "high", "alike"), "A", "B"), "held"),
        (peak(("low", "high", "low"), "A"), "held"),
        (peak(("high", "low", "alike"), "A"), "not held"),
        (peak(("low", "high", "alike"), "A"), "undecided"),
    ],
)
def test_a_check_is_held_not_held_or_undecided_by_its_interval(check: Check, verdict: str) -> None:
    assert check.look(ROWS).verdict == verdict


HELD, NOT, OPEN = (Level(At("high", "A"), over=over) for over in (40.0, 60.0, 50.0))


@pytest.mark.parametrize(
    ("parts", "every", "any_"),
    [
        ((HELD, HELD), "held", "held"),
        ((HELD, NOT), "not held", "held"),
        ((HELD, OPEN), "undecided", "held"),
        ((OPEN, NOT), "not held", "undecided"),
        ((NOT, NOT), "not held", "not held"),
    ],
)
def test_parts_make_a_whole(parts: tuple[Check, ...], every: str, any_: str) -> None:
    assert All(*parts).look(ROWS).verdict == every
    assert Some(*parts).look(ROWS).verdict == any_


def test_no_parts_decide_nothing() -> None:
    assert All().look(ROWS).verdict == "undecided"


def test_the_numbers_are_shown() -> None:
    assert (
        Above(At("high", "A"), At("low", "A")).look(ROWS).why
        == "high minus low under A is 5.00 (3.59 to 6.41)"
    )
    assert falls("low", "A", "B").look(ROWS).why == "low: A minus B is 25.00 (23.59 to 26.41)"
    # high and alike lose 10 and 8 from A to B, each known to 1.41, so that their difference is known to 2.
    found = LosesMore("high", "alike", "A", "B").look(ROWS)
    assert found.why == "high loses 10.00 and alike 8.00 from A to B: more by 2.00 (0.00 to 4.00)"
    assert (
        Level(At("high", "A"), under=60).look(ROWS).why
        == "high under A is 50.00 (49.00 to 51.00), to be under 60"
    )
    assert (
        Above(At("9", "A"), At("3", "A"))
        .look(table(**{"9": (5.0,), "3": (1.0,)}))
        .why.startswith("row 9 minus row 3")
    )


def test_several_comparisons_show_what_decides() -> None:
    held = higher("high", "low", "A", "B", "C").look(ROWS)
    assert held.why == "all 3 comparisons; closest: high minus low under A is 5.00 (3.59 to 6.41)"
    failed = higher("low", "high", "A", "B", "C").look(ROWS).why
    assert failed.startswith("not held in 3 of 3 comparisons: low minus high under B is -20.00")
    assert failed.endswith("; and 1 more")
    doubtful = higher("alike", "high", "A", "B", "C").look(ROWS).why
    assert doubtful.startswith("undecided in 3 of 3 comparisons: alike minus high under A is -1.00")


def test_what_is_missing_leaves_it_undecided_and_says_why() -> None:
    rows = {"SOAR": {"PGD20": cell(50), "PGD1000": Cell(missing="too long at this scale")}}
    found = keeps("SOAR", "PGD20", "PGD1000", 2.0).look(rows)
    assert found.verdict == "undecided"
    assert found.why == "not measured: SOAR under PGD1000 (too long at this scale)"
    for check in (
        higher("SOAR", "ADV", "PGD20"),
        Near(At("SOAR", "PGD20"), At("ADV", "PGD20"), points=1.0),
        Level(At("ADV", "PGD20"), over=1.0),
        LosesMore("SOAR", "ADV", "PGD20", "PGD20"),
    ):
        assert check.look(rows).why == "not measured: ADV under PGD20 (not part of this result)"
        assert check.look(rows).verdict == "undecided"


def test_one_failure_decides_even_if_something_is_missing() -> None:
    rows = {"SOAR": {"A": cell(10)}, "ADV": {"A": cell(20), "B": cell(20)}}
    assert higher("SOAR", "ADV", "A", "B").look(rows).verdict == "not held"
    assert Some(higher("ADV", "SOAR", "B"), higher("ADV", "SOAR", "A")).look(rows).verdict == "held"


def test_a_number_that_is_none_decides_nothing() -> None:
    rows = {"SOAR": {"A": Cell(values=(math.nan,))}, "ADV": {"A": cell(20)}}
    assert higher("SOAR", "ADV", "A").look(rows).why == "not a number: SOAR under A"


def test_without_an_interval_the_number_decides_and_says_so() -> None:
    rows = {
        "one": {"A": Cell(values=(2.0,))},
        "other": {"A": Cell(values=(1.0,))},
        "same": {"A": Cell(values=(1.0,))},
    }
    found = higher("one", "other", "A").look(rows)
    assert found.verdict == "held" and "no interval known" in found.why
    assert higher("same", "other", "A").look(rows).verdict == "undecided"


def test_columns_of_one_row_are_compared_seed_by_seed() -> None:
    rows = {
        "SOAR": {"A": Cell(values=(50.0, 40.0, 60.0)), "B": Cell(values=(49.0, 39.0, 59.0))},
        "ADV": {"A": Cell(values=(49.0, 39.0, 59.0))},
    }
    assert falls("SOAR", "A", "B").look(rows).verdict == "held"
    # Two rows are two trainings, and these vary by far more than they differ.
    assert higher("SOAR", "ADV", "A").look(rows).verdict == "undecided"
