"""Lines are below and above a function over its whole interval, and ranges hold what it takes there."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from soar.bounds import activations
from soar.bounds.activations import Activation, relu_lines
from soar.bounds.interval import Interval

ALL: dict[str, Activation] = {
    "silu": activations.SILU,
    "gelu": activations.gelu(),
    "gelu by tanh": activations.gelu("tanh"),
    "tanh": activations.TANH,
    "sigmoid": activations.SIGMOID,
    "softplus": activations.softplus(),
    "sharp softplus": activations.softplus(10.0, 3.0),
    "square": activations.SQUARE,
}
POSITIVE = {"sqrt": activations.SQRT, "reciprocal": activations.RECIPROCAL}


def intervals(*, positive: bool, dtype: torch.dtype) -> Interval:
    generator = torch.Generator().manual_seed(0)
    center = 4 * torch.randn(400, generator=generator, dtype=torch.float64)
    radius = 10 ** (6 * torch.rand(400, generator=generator, dtype=torch.float64) - 5)
    ends = torch.stack([center - radius, center + radius])
    if positive:
        ends = ends.abs().add(0.01).sort(dim=0).values
    return Interval(*ends.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", [*ALL, *POSITIVE])
def test_lines_and_ranges_enclose_the_function(name: str, dtype: torch.dtype) -> None:
    one = {**ALL, **POSITIVE}[name]
    inputs = intervals(positive=name in POSITIVE, dtype=dtype)
    lower, upper = inputs.lower.double(), inputs.upper.double()
    z = lower + (upper - lower) * torch.linspace(0, 1, 501, dtype=torch.float64)[:, None]
    z = z.clamp(lower, upper)
    exact = one.function(z)
    bound = one.range(inputs)
    assert (bound.lower.double() <= exact).all() and (exact <= bound.upper.double()).all()
    a, b, c, d = (part.double() for part in one.lines(inputs))
    assert (a * z + b <= exact).all() and (exact <= c * z + d).all()
    # What torch computes in this precision lies there, too.
    rounded = z.to(dtype).clamp(inputs.lower, inputs.upper)
    computed = one.function(rounded).double()
    assert (bound.lower.double() <= computed).all() and (computed <= bound.upper.double()).all()
    assert (a * rounded + b <= computed).all() and (computed <= c * rounded + d).all()


@pytest.mark.parametrize("name", ALL)
def test_second_derivatives_are_below_their_limits_and_close(name: str) -> None:
    one = ALL[name]
    z = torch.linspace(-12, 12, 240_001, dtype=torch.float64)
    if name == "sharp softplus":
        z = z[(10 * z) < 3]
    z.requires_grad_()
    (first,) = torch.autograd.grad(one.function(z).sum(), z, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), z)
    limit = float(one.bend(Interval(z[:1], z[:1])))
    assert 0.99 * limit <= float(second.abs().max()) <= limit


@pytest.mark.parametrize("name", [name for name, one in ALL.items() if one.valley is not None])
def test_valleys_are_the_lowest_points(name: str) -> None:
    one = ALL[name]
    assert one.valley is not None
    z = torch.linspace(-6, 6, 120_001, dtype=torch.float64)
    lowest = one.function(torch.tensor(one.valley, dtype=torch.float64))
    assert float(one.function(z).min()) >= float(lowest) - 1e-15
    z = torch.tensor(one.valley, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(one.function(z), z)
    assert abs(float(slope)) < 1e-15


def test_smooth_lines_are_close_over_short_intervals() -> None:
    ends = torch.tensor([1.0, -1.0], dtype=torch.float64)
    a, b, c, d = activations.SILU.lines(Interval(ends - 0.01, ends + 0.01))
    assert torch.equal(a, c) and float((d - b).max()) < 3e-5


def test_the_triangle_of_a_relu_is_the_published_one() -> None:
    lower, upper = torch.tensor([-1.0, -3.0, -2.0, 1.0]), torch.tensor([3.0, 1.0, -1.0, 2.0])
    a, b, c, d = relu_lines(Interval(lower, upper))
    assert a.tolist() == [1, 0, 0, 1] and not b.any()
    torch.testing.assert_close(c, torch.tensor([0.75, 0.25, 0.0, 1.0]))
    torch.testing.assert_close(d, torch.tensor([0.75, 0.75, 0.0, 0.0]))
    chosen = torch.full_like(lower, 0.3)
    assert relu_lines(Interval(lower, upper), chosen).lower_slope.tolist() == pytest.approx([0.3, 0.3, 0, 1])


def test_relu_lines_hold_in_float32() -> None:
    inputs = intervals(positive=False, dtype=torch.float32)
    a, b, c, d = (part.double() for part in relu_lines(inputs))
    for z in (inputs.lower.double(), inputs.upper.double(), torch.zeros(400, dtype=torch.float64)):
        inside = (z >= inputs.lower) & (z <= inputs.upper)
        assert (a * z + b <= F.relu(z))[inside].all() and (F.relu(z) <= c * z + d)[inside].all()
