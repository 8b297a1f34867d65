"""Intervals hold whatever the entries may become, and the sums of pixels of a ball."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from soar.bounds import propagate
from soar.bounds.interval import Interval, affine, around, both, plus, rounding, scaled, times
from soar.threat import L2, Linf

GENERATOR = torch.Generator().manual_seed(0)
LOWER = torch.randn(50, 6, generator=GENERATOR, dtype=torch.float64)
BOX = Interval(LOWER, LOWER + torch.rand(50, 6, generator=GENERATOR, dtype=torch.float64))


def ends(box: Interval) -> list[torch.Tensor]:
    return [
        torch.where(torch.rand(50, 6, generator=GENERATOR) < 0.5, box.lower, box.upper) for _ in range(64)
    ]


def test_affine_maps_reach_their_ends_and_not_beyond() -> None:
    weight = torch.randn(3, 6, generator=GENERATOR, dtype=torch.float64)
    found = affine(BOX, F.linear, weight, 6, torch.zeros(50, 3, dtype=torch.float64))
    low = torch.where(weight > 0, BOX.lower[:, None], BOX.upper[:, None])
    torch.testing.assert_close(found.lower, (weight * low).sum(dim=2), rtol=0, atol=1e-13)
    assert (found.lower <= (weight * low).sum(dim=2)).all()


def test_sums_products_and_scales_hold_all_ends() -> None:
    factor = torch.randn(6, generator=GENERATOR, dtype=torch.float64)
    other = Interval(BOX.lower.flip(0), BOX.upper.flip(0))
    found = [scaled(BOX, factor, 0.3), plus(BOX, other), times(BOX, other)]
    for a, b in zip(ends(BOX), ends(other), strict=True):
        for values, bound in zip((factor * a + 0.3, a + b, a * b), found, strict=True):
            assert ((bound.lower <= values) & (values <= bound.upper)).all()
    corners = torch.stack([a * b for a in BOX[:2] for b in other[:2]])
    torch.testing.assert_close(found[2].lower, corners.amin(dim=0))


def test_both_is_the_intersection() -> None:
    narrow = both(
        Interval(torch.zeros(1), torch.ones(1)), Interval(torch.full((1,), 0.5), torch.full((1,), 2.0))
    )
    assert (float(narrow.lower), float(narrow.upper)) == (0.5, 1.0)


@pytest.mark.parametrize("threat", [Linf("0.3"), L2("0.3")], ids=str)
def test_the_region_holds_what_a_threat_may_project_to(threat: Linf | L2) -> None:
    x = torch.rand(8, 3, 4, 4, generator=GENERATOR)
    region = around(x, threat)
    for _ in range(10):
        points = threat.project(x + torch.randn(x.shape, generator=GENERATOR), x)
        assert ((region.lower <= points) & (points <= region.upper)).all()
    assert region.lower.min() >= 0 and region.upper.max() <= 1


def test_sums_of_pixels_of_a_ball_are_bounded_by_its_radius() -> None:
    x = torch.full((1, 100), 0.5).double()
    model = nn.Linear(100, 2, bias=False).double().requires_grad_(False)
    model.weight.fill_(1)
    found = Interval(*(end[0, 0] for end in propagate(model, x, L2("0.5")).interval[:2]))
    # sqrt(100) times the radius; the box alone would give 100 times.
    assert float(found.upper) == pytest.approx(50 + 5) and float(found.lower) == pytest.approx(50 - 5)


@pytest.mark.parametrize("way", ["expand", "repeat", "index"])
def test_a_pixel_that_is_used_twice_counts_twice(way: str) -> None:
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            many = {
                "expand": lambda: x.expand(-1, 4),
                "repeat": lambda: x.repeat(1, 4),
                "index": lambda: x[:, [0] * 4],
            }
            return F.linear(many[way](), torch.ones(2, 4).double())

    found = propagate(Twice(), torch.full((1, 1), 0.5).double(), L2("0.1")).interval
    assert float(found.upper[0, 0]) >= 4 * 0.6


def test_rounding_covers_float32_sums_in_any_order() -> None:
    for terms in (10, 1000):
        a, b = torch.randn(2, terms, generator=GENERATOR)
        exact, size = (a.double() * b.double()).sum(), (a.double() * b.double()).abs().sum()
        one_by_one = torch.zeros(())
        for product in a * b:
            one_by_one += product
        assert (one_by_one.double() - exact).abs() <= rounding(a, terms) * size / 2
