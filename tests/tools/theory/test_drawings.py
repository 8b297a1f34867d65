"""What a figure shows is read back from its axes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from tools.figures.command import Section

from soar.theory import logistic_regression
from tests.tools.figures.made import keep, x_of, y_of
from tools.theory import cases, derivation, drawings, regularizers


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Figure:
    """Hand out a figure instead of a file."""
    return keep(monkeypatch, drawings)


def test_linear_regression_shows_the_attacked_losses(drawn: Figure) -> None:
    rows = regularizers.table()
    drawings.draw_linear_regression(rows, Path())
    (axes,) = drawn.axes
    dots = axes.lines[1]
    assert x_of(dots) == list(regularizers.DIMENSIONS)
    assert y_of(dots) == [row["attacked"] for row in rows if row["fit"] == "gradient descent"]
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_logistic_regression_shows_both_radii(drawn: Figure) -> None:
    sections = [Section("", logistic_regression.table(radius)) for radius in (3.0, 5.0)]
    drawings.draw_logistic_regression(sections, Path())
    for axes, section in zip(drawn.axes, sections, strict=True):
        assert y_of(axes.lines[2]) == [row["penalty"] for row in section.rows]


def test_proposition_1_shows_the_gap(drawn: Figure) -> None:
    rows = cases.curve(points=5)
    drawings.draw_proposition_1(rows, Path())
    maximum, printed = (y_of(line) for line in drawn.axes[0].lines)
    assert printed == pytest.approx([0.7978845608 * value for value in maximum])


def test_tightness_shows_every_image_and_the_median(drawn: Figure) -> None:
    gains = dict.fromkeys(drawings._CHAIN, torch.tensor([1.0, 2.0, 4.0]))
    gains[derivation.SECOND] = torch.tensor([0.0, 1.0, 1.0])
    for count in (1, 10, 20):
        gains[f"{count} z, printed"] = torch.ones(3)
    gains["20 z, h 0.01"] = torch.tensor([7.0, 8.0, 9.0])
    drawings.draw_tightness(gains, "which run", Path())
    (axes,) = drawn.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[:3] == ["20 z, h 0.01", "20 z, printed", "1 z, printed"] and "10 z, printed" not in names
    assert x_of(axes.lines[0]) == [7, 8, 9] and x_of(axes.lines[1]) == [8, 8]
    second = axes.lines[2 * names.index(derivation.SECOND)]
    assert 0 < min(x_of(second)) < 1e-5, "a logarithmic axis has no place for 0"
    # Ratios of 0, 1/2, 1/4 to the loss, and of 1.
    assert "sees 0.25 of the rise; SOAR's bound is 1 times it" in drawn.get_suptitle()
