"""Which run is best, by how much, and when nobody may be called so."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from soar.evaluation.interval import paired
from soar.report.content import RunContent
from soar.report.sections import comparison
from soar.report.sections.comparison import caveats, difference, leaders, points, standing
from soar.threat import Linf
from tests.report.made import made_content
from tests.report.reading import read, saved


def of_half(run: RunContent) -> RunContent:
    """Assess a run on every other example only."""
    rows = torch.arange(0, len(run.assessment), 2)
    return replace(run, assessment=run.assessment.select(rows))


def test_a_difference_is_paired_on_the_examples_in_common() -> None:
    first, second = made_content(2)
    found = difference(first.assessment, of_half(second).assessment, "worst case")
    assert found is not None
    flags = [run.assessment.survivors("worst case")[::2] for run in (first, second)]
    assert (found.difference, found.low, found.high) == paired(*flags)


def test_a_difference_is_written_with_its_signs() -> None:
    first, second, third = made_content(3)
    found = difference(second.assessment, first.assessment, "worst case")
    close = difference(third.assessment, first.assessment, "worst case")
    assert found is not None and close is not None
    assert points(found).startswith("-47.4 (-")
    assert points(close).startswith("+1.1 (-")
    assert points(None) == "not comparable"


def test_the_best_run_is_one_to_trust() -> None:
    pgd, masked, trades, suspicious, unknown = made_content(5)
    assert leaders([pgd, masked, suspicious, unknown]) == [0]
    assert leaders([masked, suspicious]) == []
    assert leaders([masked, unknown]) == [1]  # however low it is
    assert leaders([trades, unknown, replace(trades, name="again")]) == [0, 2]


def test_a_run_is_best_only_if_its_lead_is_more_than_chance() -> None:
    pgd, masked, trades, suspicious, unknown = made_content(5)
    runs = [pgd, masked, trades, suspicious, unknown]
    close = difference(trades.assessment, pgd.assessment, "worst case")
    assert close is not None and close.difference > 0 > close.low
    assert leaders(runs) == [2, 0]  # the highest first
    names = [standing(place, leaders(runs)) for place in range(5)]
    assert names == ["tied for best", "", "tied for best", "", ""]


def robust_on(run: RunContent, count: int) -> RunContent:
    """The same run, robust on the first images only."""
    found = run.assessment
    few = found.index < count
    attacks = tuple(replace(one, robust=few) for one in found.attacks)
    return replace(run, assessment=replace(found, correct=torch.ones_like(few), attacks=attacks))


def test_the_same_lead_is_clear_on_nested_images_where_unpaired_intervals_overlap() -> None:
    (run,) = made_content(1)
    one, other = robust_on(run, 660), robust_on(run, 640)
    (low, _), (_, high) = (each.assessment.interval("worst case") for each in (one, other))
    assert low < high, "without pairing they could not be told apart"
    assert leaders([other, one]) == [1]
    assert leaders([robust_on(run, 658), robust_on(run, 660)]) == [1, 0]


def test_runs_of_different_images_are_tied() -> None:
    first, _, third = made_content(3)
    halves = (torch.arange(500), torch.arange(500, 1000))
    low, high = (replace(third, assessment=third.assessment.select(rows)) for rows in halves)
    assert set(leaders([first, low, high])) == {0, 1, 2}


def test_the_table_of_differences_says_tied_and_its_file_holds_the_same() -> None:
    runs = made_content(3)
    root = read(comparison.draw(runs, leaders(runs)))
    assert "tied: the 95% interval of the paired difference includes 0" in root.all("caption")[0].text
    heads = [one.text for one in root.all("th") if one.attributes.get("scope") == "col"]
    assert heads[-1] == "robust, against trades (highest)"
    shown = {one.text for one in root.all("td")} - {"-"}
    names, *rows = saved(root.all("a", "csv")[0])
    assert names == ["run", "against", "accuracy", "points", "low", "high", "note"]
    numbers = []
    for row in rows:
        apart, low, high = map(float, row[3:6])
        numbers.append(f"{apart:+.1f} ({low:+.1f} to {high:+.1f}) {row[6]}")
    assert {one.replace("-", "\N{MINUS SIGN}") for one in numbers} == shown
    assert [row[:3] for row in rows[:2]] == [
        ["pgd-10", "trades", "worst case"],
        ["soar-zero-start", "pgd-10", "clean"],
    ]


def test_there_is_no_best_of_one_or_of_different_tasks() -> None:
    one, _, other = made_content(3)
    assert leaders([one]) == [] and caveats([one]) == []
    assert caveats([one, other]) == []
    elsewhere = replace(other, assessment=replace(other.assessment, data="cifar10"))
    wider = replace(other, assessment=replace(other.assessment, threat=Linf("0.2")))
    fewer = replace(other, assessment=replace(other.assessment, attacks=other.assessment.attacks[:1]))
    for changed in (elsewhere, wider, fewer):
        assert leaders([one, changed]) == []
        (said,) = caveats([one, changed])
        assert "no run is called best" in said
    assert difference(one.assessment, elsewhere.assessment, "clean") is None


def test_different_examples_are_said() -> None:
    one, _, other = made_content(3)
    (said,) = caveats([one, of_half(other)])
    assert said == "pgd-10 and trades were assessed on different examples; 500 are in common."
    assert leaders([one, of_half(other)]) != []


@pytest.mark.parametrize("name", ["clean", "PGD-20", "worst case"])
def test_a_run_does_not_differ_from_itself(name: str) -> None:
    (run,) = made_content(1)
    found = difference(run.assessment, run.assessment, name)
    assert found is not None and found.difference == 0 and found.low < 0 < found.high
