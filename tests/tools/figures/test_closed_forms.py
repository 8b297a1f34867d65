"""The figures that are computed from formulas: valley, lengths, confidence."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from tests.tools.figures.made import keep, y_of
from tools.figures import confidence, lengths, valley


def test_on_the_floor_of_the_valley_only_the_second_order_sees_the_adversary() -> None:
    descent, robust = valley.table()
    assert descent["loss"] == descent["first order"] == 0
    assert descent["attacked"] == descent["second order"] == 0.5 * (valley.WEIGHT * valley.EPS) ** 2
    assert robust["attacked"] == 0


def test_the_valley_is_drawn_with_both_fits_and_their_expansions(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = keep(monkeypatch, valley)
    valley.draw(Path())
    above, cut = figure.axes
    assert "loss 0.5" in [text.get_text() for text in above.texts], "the level that the adversary reaches"
    descent, second, robust, first = (y_of(line) for line in cut.lines)
    assert descent == second and max(descent) == 2
    assert robust == first and not any(robust)


def test_lengths_are_those_of_chi() -> None:
    assert lengths.mean_length(1) == pytest.approx(math.sqrt(2 / math.pi))
    assert lengths.mean_length(2) == pytest.approx(math.sqrt(math.pi) / 2)
    places = torch.linspace(1e-4, 6, 60_001, dtype=torch.float64)
    for rank in (1, 5, 50):
        density = lengths.density(rank, places)
        assert float(torch.trapezoid(density, places)) == pytest.approx(1, abs=1e-3)
        assert float(torch.trapezoid(density * places, places)) == pytest.approx(
            lengths.mean_length(rank), abs=1e-3
        )
        assert float(torch.trapezoid(density * places**2, places)) == pytest.approx(1, abs=1e-3)


def test_means_by_rank_are_drawn_from_the_least_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = keep(monkeypatch, lengths)
    lengths.draw(Path())
    means = y_of(figure.axes[1].lines[0])
    assert means[0] == pytest.approx(math.sqrt(2 / math.pi))
    assert means == sorted(means) and 0.99 < means[-1] < 1


def test_louder_logits_have_no_slope_in_float32_and_the_margin_has() -> None:
    rows = confidence.table()
    assert rows[0]["seen in float32"] == pytest.approx(rows[0]["slope of the loss"], rel=1e-6)
    assert rows[-1]["slope of the loss"] > 0 and rows[-1]["seen in float32"] == 0
    assert [row["slope of the margin"] for row in rows] == [-row["logits x"] for row in rows]


def test_the_boundary_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = keep(monkeypatch, confidence)
    confidence.draw(Path())
    losses, margins = figure.axes
    _, quiet, _, loud = losses.lines
    assert y_of(quiet)[0] > 0.1 and y_of(loud)[0] < 1e-12
    for factor in confidence.FACTORS:
        at_boundary = confidence.loss_after(torch.tensor([confidence.DISTANCE]), factor)
        assert float(at_boundary) == pytest.approx(math.log(2))
    assert y_of(margins.lines[1])[0] == confidence.DISTANCE
