from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar import randomness
from soar.objectives.alignment import cosine, watched
from tests.attacks.problems import SHAPE


def gradients(seed: int, count: int = 4) -> torch.Tensor:
    return randomness.normal(randomness.key(seed, torch.arange(count), "gradients"), SHAPE, torch.float64)


def test_the_cosine_is_the_formula_written_out() -> None:
    one, other = gradients(0), gradients(1)
    expected = [float((a * b).sum() / a.norm() / b.norm()) for a, b in zip(one, other, strict=True)]
    assert cosine(one, other).tolist() == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 100), st.floats(1e-37, 1e37))
def test_lengths_do_not_matter_even_where_their_squares_vanish(seed: int, length: float) -> None:
    one, other = gradients(seed).float(), gradients(seed + 1).float()
    torch.testing.assert_close(cosine(one * length, other), cosine(one, other))
    torch.testing.assert_close(cosine(one, -other * length), -cosine(one, other))


def test_a_zero_gradient_has_cosine_0_and_a_finite_derivative() -> None:
    one, other = gradients(0), torch.zeros(4, *SHAPE, dtype=torch.float64, requires_grad=True)
    found = cosine(one, other)
    found.sum().backward()
    assert found.tolist() == [0] * 4
    assert other.grad is not None and other.grad.isfinite().all()


def test_the_metric_is_filled_by_the_backward_pass() -> None:
    x, first = gradients(0), gradients(1)
    points, metric = watched(x, first)
    assert torch.equal(points, x) and metric.isnan() and not metric.requires_grad and not x.requires_grad
    # The mean of the loss and a factor on it change the length of the gradient only.
    (0.125 * points.pow(3).flatten(1).sum(dim=1).mean()).backward()
    torch.testing.assert_close(metric, cosine(first, 3 * x.square()).mean())


def test_without_a_backward_pass_through_the_points_it_stays_unknown() -> None:
    points, metric = watched(gradients(0), gradients(1))
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    torch.autograd.grad((weight * points).sum(), weight)
    assert metric.isnan()
