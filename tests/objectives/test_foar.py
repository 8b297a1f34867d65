from __future__ import annotations

import pytest
import torch

from soar.errors import UserError
from soar.losses import cross_entropy
from soar.objectives import FOAR, Adversarial, Standard, check_objective
from soar.threat import L1, L2, Linf, Threat
from tests.attacks.problems import Linear, Passes, TinyNet, images, said

KINDS: list[tuple[Threat, float]] = [(Linf("0.05"), 1), (L2("0.1"), 2), (L1("0.2"), torch.inf)]


@pytest.mark.parametrize("threat, dual", KINDS)
def test_loss_on_a_linear_model_is_the_closed_form(threat: Threat, dual: float) -> None:
    # Two classes: the gradient is (1 - p_y) (w_other - w_y), so the penalty is eps (1 - p_y) ||w||_dual.
    model, x = Linear(classes=2), images(6)
    y = said(model, x)
    w = torch.linalg.vector_norm((model.weight[1] - model.weight[0]).flatten(), ord=dual)
    p = model(x).softmax(dim=1).gather(1, y[:, None])[:, 0]
    expected = (-p.log() + threat.radius * (1 - p) * w).mean()
    found = FOAR(model, threat, init="zero")(x, y)
    torch.testing.assert_close(found.loss, expected)
    torch.testing.assert_close(found.metrics["penalty"], (threat.radius * (1 - p) * w).mean().detach())


@pytest.mark.parametrize("threat, dual", KINDS)
def test_loss_and_gradient_are_the_formula_written_out(threat: Threat, dual: float) -> None:
    model, x = TinyNet(), images(5)
    y = said(model, x)
    objective = FOAR(model, threat, penalty_eps_fraction=1.4, seed=4)
    index = torch.arange(5)
    found = objective(x, y, index, 3)
    points, _ = objective.init.find(model, threat, x, y, index=index, seed=4, step=3)
    points.requires_grad_()
    values = cross_entropy(model(points), y)
    (g,) = torch.autograd.grad(values.sum(), points, create_graph=True)
    norms = torch.linalg.vector_norm(g.flatten(1), ord=dual, dim=1)
    expected = (values + 1.4 * threat.radius * norms).mean()
    torch.testing.assert_close(found.loss, expected)
    parameters = list(model.parameters())
    ours = torch.autograd.grad(found.loss, parameters)
    theirs = torch.autograd.grad(expected, parameters)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-10)


def test_gradient_agrees_with_finite_differences_through_the_whole_objective() -> None:
    model, x = TinyNet(), images(4)
    y = said(model, x)
    objective = FOAR(model, L2("0.3"), init="zero")
    weight = next(model.parameters())
    (slope,) = torch.autograd.grad(objective(x, y, step=0).loss, weight)
    nudge = torch.ones_like(weight)
    with torch.no_grad():
        weight.add_(1e-6 * nudge)
        above = objective(x, y, step=0).loss.item()
        weight.sub_(2e-6 * nudge)
        below = objective(x, y, step=0).loss.item()
    assert float((slope * nudge).sum()) == pytest.approx((above - below) / 2e-6, rel=1e-4)


def test_a_penalty_of_nothing_is_training_at_the_start() -> None:
    model, x = TinyNet(), images(4)
    y = said(model, x)
    plain = FOAR(model, Linf(0.1), init="zero", penalty_eps_fraction=0)(x, y).loss
    torch.testing.assert_close(plain, Standard(model)(x, y).loss)
    whole = FOAR(model, Linf(0.1), init="pgd-3", init_eps_fraction=1.0)(x, y, step=0).loss
    torch.testing.assert_close(whole, Adversarial(model, Linf(0.1), steps=3)(x, y, step=0).loss)


@pytest.mark.parametrize("start, probes", [("zero", 0), ("random", 0), ("pgd-1", 1), ("pgd-4", 4)])
def test_passes_are_the_arithmetic_of_the_method(start: str, probes: int) -> None:
    model, x = Passes(), images(3)
    FOAR(model, Linf(0.1), init=start)(x, said(model.model, x))
    assert model.modes == [False] * probes + [True]


@pytest.mark.parametrize("start", ["zero", "random", "pgd-2"])
def test_every_start_keeps_the_contract(start: str) -> None:
    check_objective(lambda model, threat: FOAR(model, threat, init=start))


def test_metrics_say_what_happened() -> None:
    model, x = TinyNet(), images(4)
    y = said(model, x)
    found = FOAR(model, Linf(0.1), init="zero")(x, y)
    torch.testing.assert_close(found.metrics["cross_entropy"] + found.metrics["penalty"], found.loss.detach())
    assert 0 < found.metrics["confidence"] <= 1 and found.metrics["gradient_norm"] > 0


def test_bad_values_are_refused_when_the_objective_is_made() -> None:
    with pytest.raises(UserError, match=r"objective\.penalty_eps_fraction: got -1, expected at least 0"):
        FOAR(TinyNet(), Linf(0.1), penalty_eps_fraction=-1)
    with pytest.raises(UserError, match="FOAR needs a threat"):
        FOAR(TinyNet(), None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"objective\.init: got 'fgsm'"):
        FOAR(TinyNet(), Linf(0.1), init="fgsm")
