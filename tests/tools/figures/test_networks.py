"""The figures that are measured on a network, held to networks whose answer is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.tools.figures.made import OneKink, gray, keep, quadratic_network, x_of, y_of
from tools.figures import attack_path, kinks


def test_along_an_attack_on_a_quadratic_loss_the_second_order_sees_all() -> None:
    found = attack_path.measure(quadratic_network(0.1, slope=1.0))
    image, halfway = attack_path.table(found)
    assert image["order 2 sees"] == pytest.approx(1) and halfway["order 2 sees"] == pytest.approx(1)
    # q = 1 + (1 + 2 t)^2 / 2 with t up to 0.1: slope 2 x 0.1 of a rise of 0.22.
    assert image["rise to the end"] == pytest.approx(0.22)
    assert image["order 1 sees"] == pytest.approx(0.2 / 0.22)


def test_an_attack_path_is_drawn_with_its_expansions(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = keep(monkeypatch, attack_path)
    found = attack_path.measure(quadratic_network(0.1, slope=1.0), points=5)
    attack_path.draw(found, Path())
    for axes, place in zip(figure.axes, (0.0, 0.5), strict=True):
        loss, second, first, dot = axes.lines
        assert y_of(second) == pytest.approx(y_of(loss))
        assert y_of(first)[-1] < y_of(loss)[-1]
        assert x_of(dot) == [place]


def test_images_whose_loss_does_not_rise_are_left_out() -> None:
    rows = attack_path.table(attack_path.measure(gray(OneKink(0.0, 0.0, 0.0)), points=3))
    assert [row["images"] for row in rows] == [0, 0]


def test_a_difference_sees_the_jump_divided_by_the_step() -> None:
    found = kinks.measure(gray(OneKink(slope=4.0, jump=100.0, kink=1e-5), images=8), samples=4)
    crossed = found.kinks[0.01] == 1
    assert 0 < int(crossed.sum()) < len(crossed), "half of the directions lead away from the kink"
    ratios = {step: norms / found.exact for step, norms in found.by_step.items()}
    assert float(ratios[0.01][~crossed].sub(1).abs().max()) < 0.05, "without a kink it is the Hessian"
    assert float(ratios[0.01][crossed].min()) > 10
    assert float(ratios[1e-5].sub(1).abs().max()) < 0.05, "the step ends before the kink"


def test_a_smooth_network_has_no_kinks() -> None:
    class Smooth(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            t = x.flatten(1).sum(dim=1)
            return torch.stack([t, -t], dim=1)

    found = kinks.measure(gray(Smooth()), samples=2)
    assert all(not kinks_within.any() for kinks_within in found.kinks.values())
    assert found.ratio(0.01) == pytest.approx(1, abs=0.05)


def test_the_line_follows_its_tangent_up_to_the_kink(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = keep(monkeypatch, kinks)
    model = OneKink(slope=4.0, jump=100.0, kink=1e-3)
    made = gray(model, images=8)
    found = kinks.measure(made, samples=4, points=200)
    kinks.draw(found, Path())
    line, norms = figure.axes
    slopes, tangent = y_of(line.lines[0]), y_of(line.lines[1])
    assert slopes[1] == pytest.approx(tangent[1], rel=1e-6)
    assert x_of(norms.lines[0]) == list(kinks.STEPS)
    (section,) = kinks.sections(made, found)
    assert section.rows[-1]["h"] == "exact" and len(section.rows) == len(kinks.STEPS) + 1
