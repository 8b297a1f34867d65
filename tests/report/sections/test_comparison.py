"""Which run is best, by how much, and when nobody may be called so."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from soar.evaluation.interval import paired
from soar.report.content import RunContent
from soar.report.sections.headline import best, caveats, difference, points
from soar.threat import Linf
from tests.report.made import made_content


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
    assert best([pgd, masked, trades, suspicious, unknown]) == [2]
    assert best([masked, suspicious]) == []
    assert best([masked, unknown]) == [1]  # however low it is
    assert best([trades, pgd, replace(trades, name="again")]) == [0, 2]


def test_there_is_no_best_of_one_or_of_different_tasks() -> None:
    one, _, other = made_content(3)
    assert best([one]) == [] and caveats([one]) == []
    assert caveats([one, other]) == []
    elsewhere = replace(other, assessment=replace(other.assessment, data="cifar10"))
    wider = replace(other, assessment=replace(other.assessment, threat=Linf("0.2")))
    fewer = replace(other, assessment=replace(other.assessment, attacks=other.assessment.attacks[:1]))
    for changed in (elsewhere, wider, fewer):
        assert best([one, changed]) == []
        (said,) = caveats([one, changed])
        assert "no run is called best" in said
    assert difference(one.assessment, elsewhere.assessment, "clean") is None


def test_different_examples_are_said() -> None:
    one, _, other = made_content(3)
    (said,) = caveats([one, of_half(other)])
    assert said == "pgd-10 and trades were assessed on different examples; 500 are in common."
    assert best([one, of_half(other)]) != []


@pytest.mark.parametrize("name", ["clean", "PGD-20", "worst case"])
def test_a_run_does_not_differ_from_itself(name: str) -> None:
    (run,) = made_content(1)
    found = difference(run.assessment, run.assessment, name)
    assert found is not None and found.difference == 0 and found.low < 0 < found.high
