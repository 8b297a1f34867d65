from __future__ import annotations

from pathlib import Path

import pytest

from soar import progress
from soar.evaluation import Assessment, evaluate
from soar.threat import Linf
from tests.evaluation.test_evaluate import ATTACKS, Fragile, problem

Shown = dict[str, list[str]]
"""what the bar of each attack said, one after the other"""


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    said: Shown = {}

    def advance(self: progress.Progress, n: int = 1, **fields: progress.Value | None) -> None:
        self.done += n
        said.setdefault(self.label, []).append(str(fields["robust"]))

    monkeypatch.setattr(progress.Progress, "advance", advance)
    # Several parts an attack, as data have that are long.
    monkeypatch.setattr("soar.evaluation.target._BATCHES_AT_ONCE", 2)
    return said


def assess(calls: int = 10**9, journal: Path | None = None) -> Assessment:
    """Evaluate with a model that fails after so many calls."""
    model, x, labels = problem(90)
    task = Fragile(model, calls), (x, labels), Linf(0.05), ATTACKS
    return evaluate(*task, batch_size=8, journal=journal, fast=False, check=False)


def test_the_bar_tells_the_most_that_can_be_left_and_ends_on_the_tables_number(shown: Shown) -> None:
    found = assess()
    for attack in ATTACKS:
        *before, last = shown[attack.label]
        assert last == f"{found.accuracy(attack.label):.1%}"
        assert all(one.startswith("at most ") for one in before)
        bounds = [float(one.removeprefix("at most ").rstrip("%")) for one in before]
        assert bounds == sorted(bounds, reverse=True)
        assert bounds[0] <= 100 * found.accuracy("clean") + 0.05
        assert bounds[-1] >= 100 * found.accuracy(attack.label) - 0.05


def test_a_resumed_bar_counts_what_was_fooled_before(shown: Shown, tmp_path: Path) -> None:
    whole = assess()
    once = {label: len(said) for label, said in shown.items()}
    shown.clear()
    with pytest.raises(KeyboardInterrupt):
        assess(calls=60, journal=tmp_path / "found.jsonl")
    cut = next(reversed(shown))
    assert shown[cut][-1] != f"at most {whole.accuracy('clean'):.1%}", "something was fooled by then"
    shown.clear()
    assess(journal=tmp_path / "found.jsonl")
    assert 0 < len(shown[cut]) < once[cut]
    assert shown[cut][-1] == f"{whole.accuracy(cut):.1%}"
