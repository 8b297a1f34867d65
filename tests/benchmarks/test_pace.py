"""Paces of the frontier's arms, and the epochs that its study makes of them."""

from __future__ import annotations

import json

import pytest
from tests.benchmarks.running import ROOT, benchmark

from soar.experiments.loading import load


def test_every_row_of_the_frontier_has_the_epochs_of_its_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = benchmark("pace", monkeypatch)
    saved = json.loads((ROOT / "benchmarks" / "results" / "pace.json").read_text())
    paces = {one["arm"]: pace.Pace(**one) for one in saved["paces"]}
    experiment = load("frontier")
    assert saved["images_per_second"] == pace.IMAGES_PER_SECOND
    assert list(paces) == list(pace.arms())
    for row in experiment.rows:
        minutes, _, arm = row.name.partition(" min / ")
        assert row.network is not None
        training = experiment.networks[row.network].recipe.training
        assert training.epochs == paces[arm].epochs(float(minutes)), row.name
        assert training.minutes is None, row.name


def test_an_update_of_an_expensive_arm_counts_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = benchmark("pace", monkeypatch)
    chosen = {arm: recipe for arm, recipe in pace.arms().items() if arm in ("N-FGSM", "PGD-10")}
    first, second = pace.measure(chosen, rounds=1)
    assert (first.arm, first.ratio) == ("N-FGSM", 1.0)
    assert 0 < second.ratio < 0.6
    assert pace.Pace("x", 0.5, 1.0).epochs(10) == 3.43
