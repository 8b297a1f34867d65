"""Interval propagation: exact for linear models, and what training needs of it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from soar.bounds import propagate, worst_logits
from soar.threat import L2, Linf, Threat

GENERATOR = torch.Generator().manual_seed(0)
X = 0.3 + 0.4 * torch.rand(4, 5, generator=GENERATOR, dtype=torch.float64)
Y = torch.tensor([0, 1, 2, 0])
WEIGHT = torch.randn(3, 5, generator=GENERATOR, dtype=torch.float64)
BIAS = torch.randn(3, generator=GENERATOR, dtype=torch.float64)


def linear() -> nn.Linear:
    layer = nn.Linear(5, 3).double()
    layer.weight.data, layer.bias.data = WEIGHT.clone(), BIAS.clone()
    return layer


@pytest.mark.parametrize("threat", [Linf("0.1"), L2("0.1")], ids=str)
def test_margins_and_logits_of_a_linear_model_are_exact(threat: Threat) -> None:
    bounds = propagate(linear(), X, threat)
    logits, reach = X @ WEIGHT.T + BIAS, threat.radius * threat.dual_norm(WEIGHT)
    torch.testing.assert_close(bounds.logits, logits)
    torch.testing.assert_close(bounds.interval.lower, logits - reach, rtol=0, atol=1e-12)
    torch.testing.assert_close(bounds.interval.upper, logits + reach, rtol=0, atol=1e-12)
    if isinstance(threat, Linf):
        difference = WEIGHT[Y][:, None] - WEIGHT
        exact = logits.gather(1, Y[:, None]) - logits - threat.radius * difference.abs().sum(dim=2)
        exact = exact.scatter(1, Y[:, None], torch.inf)
        torch.testing.assert_close(bounds.margins(Y), exact, rtol=0, atol=1e-12)


def test_pixels_stay_in_their_range() -> None:
    bounds = propagate(nn.Identity(), torch.tensor([[0.05, 0.98]]), Linf("0.1"))
    assert bounds.interval.lower[0, 0] == 0 and bounds.interval.upper[0, 1] == 1
    assert bounds.last is None
    assert bounds.margins(torch.tensor([1]))[0, 0] == pytest.approx(0.88 - 0.15, abs=1e-5)


def test_the_textbook_example_is_reproduced() -> None:
    # Two neurons: z = (x1 - x2, x1 + x2) over [0.4, 0.6]^2, a ReLU, and their difference.
    first, last = nn.Linear(2, 2, bias=False).double(), nn.Linear(2, 2, bias=False).double()
    first.weight.data = torch.tensor([[1.0, -1.0], [1.0, 1.0]]).double()
    last.weight.data = torch.tensor([[-1.0, 1.0], [0.0, 0.0]]).double()
    model = nn.Sequential(first, nn.ReLU(), last)
    found = propagate(model.requires_grad_(False), torch.full((1, 2), 0.5).double(), Linf("0.1")).interval
    assert float(found.lower[0, 0]) == pytest.approx(0.6, abs=1e-12)
    assert float(found.upper[0, 0]) == pytest.approx(1.2, abs=1e-12)


def test_worst_logits_have_the_bounds_as_margins() -> None:
    bounds = propagate(linear(), X, Linf("0.1"))
    worst = worst_logits(bounds, Y)
    assert not worst.gather(1, Y[:, None]).any()
    unlabeled = ~F.one_hot(Y, 3).bool()
    torch.testing.assert_close(-worst[unlabeled], bounds.margins(Y)[unlabeled])


def test_gradients_of_the_worst_loss_are_those_of_finite_differences() -> None:
    model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.BatchNorm1d(6), nn.SiLU(), nn.Linear(6, 3)).double()
    weight = next(model.parameters())

    def loss() -> torch.Tensor:
        return F.cross_entropy(worst_logits(propagate(model, X, Linf("0.05")), Y), Y)

    (gradient,) = torch.autograd.grad(loss(), weight)
    direction = torch.randn(weight.shape, generator=GENERATOR, dtype=torch.float64)
    with torch.no_grad():
        weight.add_(1e-6 * direction)
        above = loss()
        weight.sub_(2e-6 * direction)
        difference = (above - loss()) / 2e-6
    assert float(difference) == pytest.approx(float((gradient * direction).sum()), rel=1e-5)


def test_batch_norm_in_training_mode_is_that_of_the_images() -> None:
    model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3)).double()
    twin = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3)).double()
    twin.load_state_dict(model.state_dict())
    logits = propagate(model, X, Linf("0.1")).logits
    torch.testing.assert_close(logits, twin(X))
    for name, buffer in twin.named_buffers():
        torch.testing.assert_close(model.get_buffer(name), buffer)
