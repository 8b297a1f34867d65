from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar import curvature, randomness
from soar.errors import UserError
from soar.losses import cross_entropy
from soar.models import resnet10
from soar.objectives import OBJECTIVES, SOAR, Adversarial, SOARPaper, check_objective
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, Passes, TinyNet, images, said

D = math.prod(SHAPE)
INDEX = torch.arange(4)


def problem() -> tuple[TinyNet, Tensor, Tensor]:
    model, x = TinyNet(), images(4)
    return model, x, said(model, x)


def dense_penalty(model: nn.Module, point: Tensor, label: Tensor, z: Tensor, scale: float) -> float:
    """||Hz|| of one example from its dense augmented matrix."""

    def loss(v: Tensor) -> Tensor:
        return scale * cross_entropy(model(v.reshape(1, *SHAPE)), label[None]).sum()

    flat = point.flatten()
    h = torch.zeros(D + 1, D + 1, dtype=torch.float64)
    hessian = torch.autograd.functional.hessian(loss, flat)
    gradient = torch.autograd.functional.jacobian(loss, flat)
    assert isinstance(hessian, Tensor) and isinstance(gradient, Tensor)
    h[:D, :D], h[D, :D], h[:D, D], h[D, D] = hessian, gradient, gradient, 1.0
    return float((h @ z).norm())


@pytest.mark.parametrize("threat", [Linf("0.1"), L2("0.5")], ids=str)
@pytest.mark.parametrize("scale, samples", [(1.0, 1), (1 / 8, 2)])
def test_loss_is_the_formula_from_dense_matrices(threat: Threat, scale: float, samples: int) -> None:
    model, x, y = problem()
    objective = SOAR(
        model,
        threat,
        init="random",
        init_eps_fraction=0.5,
        penalty_eps_fraction=None,
        hvp="exact",
        num_directions=samples,
        loss_scale=scale,
        penalty_weight=0.3,
        penalty_floor=True,
        seed=2,
    )
    found = objective(x, y, INDEX, 5)
    points, _ = objective.init.find(model, threat, x, y, index=INDEX, seed=2, step=5)
    rho = (math.sqrt(D) if threat.norm_name == "linf" else 1) * threat.radius / 2
    factor = 0.3 * (rho**2 + 1) / 2
    total = 0.0
    for k in range(samples):
        keys = randomness.key(2, INDEX, f"soar direction {k}", 5)
        z = curvature.draw_direction(keys, SHAPE, torch.float64)
        for i in range(4):
            whole = torch.cat([z.pixels[i].flatten(), z.last[i : i + 1]])
            total += dense_penalty(model, points[i], y[i], whole, scale)
    expected = cross_entropy(model(points), y).mean().item() + factor * total / (4 * samples)
    assert found.loss.item() == pytest.approx(expected, rel=1e-9)
    assert found.metrics["penalty"].item() == pytest.approx(factor * total / (4 * samples), rel=1e-9)


def gauss_newton_penalty(model: nn.Module, point: Tensor, label: Tensor, z: Tensor, scale: float) -> float:
    """||Hz|| of one example from its dense Jacobian: H_s = J^T (diag(p) - p p^T) J, g = J^T (p - e_y)."""
    jacobian = torch.autograd.functional.jacobian(lambda v: model(v.reshape(1, *SHAPE))[0], point.flatten())
    assert isinstance(jacobian, Tensor)
    p = model(point[None])[0].softmax(dim=0).detach()
    residual = p.clone()
    residual[label] -= 1
    hessian = jacobian.T @ (torch.diag(p) - torch.outer(p, p)) @ jacobian
    gradient = (jacobian.T @ residual)[:, None]
    h = torch.cat(
        [
            torch.cat([scale * hessian, scale * gradient], dim=1),
            torch.cat([scale * gradient.T, torch.ones(1, 1, dtype=torch.float64)], dim=1),
        ]
    )
    return float((h @ z).norm())


@pytest.mark.parametrize("activation", ["silu", "gelu", "softplus"])
@pytest.mark.parametrize("product", ["exact", "gauss-newton"])
def test_products_on_smooth_networks_are_those_of_dense_matrices(product: Any, activation: Any) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = resnet10(5, SHAPE, width=8, activation=activation, he_init=True).double()
    for parameter in model.parameters():
        parameter.data.mul_(1.2)
    x = images(4)
    y = said(model, x)
    objective = SOAR(model, Linf(0.1), init="zero", hvp=product, loss_scale=0.5, penalty_weight=0.3, seed=2)
    z = curvature.draw_direction(randomness.key(2, INDEX, "soar direction 0", 5), SHAPE, torch.float64)
    whole = torch.cat([z.pixels.flatten(1), z.last[:, None]], dim=1)
    exact = [dense_penalty(model, x[i], y[i], whole[i], 0.5) for i in range(4)]
    partial = [gauss_newton_penalty(model, x[i], y[i], whole[i], 0.5) for i in range(4)]
    assert exact != pytest.approx(partial, rel=1e-2), "logits are curved"
    expected = exact if product == "exact" else partial
    found = objective(x, y, INDEX, 5)
    assert found.metrics["curvature"].item() == pytest.approx(sum(expected) / 4, rel=1e-9)
    assert_gradient_is_that_of_the_loss(objective, x, y)


def test_products_agree_where_they_should() -> None:
    model, x, y = problem()

    def penalty(**options: Any) -> float:
        objective = SOAR(model, Linf(0.1), init="zero", loss_scale=1.0, **options)
        return float(objective(x, y, INDEX, 0).metrics["penalty"])

    assert penalty(hvp="finite-difference", fd_step=1e-5) == pytest.approx(penalty(hvp="exact"), rel=1e-3)
    assert penalty(hvp="gauss-newton") != pytest.approx(penalty(hvp="exact"), rel=1e-3)


@pytest.mark.parametrize("product", ["finite-difference", "exact", "gauss-newton"])
@pytest.mark.parametrize("options", [{}, {"num_directions": 3, "init": "zero"}, {"penalty_grad_clip": 0.05}])
def test_gradient_agrees_with_finite_differences_through_the_whole_objective(
    product: Any, options: dict[str, Any]
) -> None:
    model, x, y = problem()
    objective = SOAR(model, L2("0.3"), hvp=product, **({"init": "zero"} | options))
    if "clip" in options:
        objective.penalty_grad_clip = (
            None if objective.penalty_grad_clip is None else type(objective.penalty_grad_clip)(1e9)
        )
    assert_gradient_is_that_of_the_loss(objective, x, y)


def assert_gradient_is_that_of_the_loss(objective: SOAR, x: Tensor, y: Tensor) -> None:
    """Compare the gradient by the first weights with a difference of losses."""
    weight = next(objective.model.parameters())
    (slope,) = torch.autograd.grad(objective(x, y, INDEX, 0).loss, weight)
    nudge = randomness.normal(randomness.key(0, 0, "n"), tuple(weight.shape), torch.float64)[0]
    with torch.no_grad():
        weight.add_(1e-6 * nudge)
    above = objective(x, y, INDEX, 0).loss.item()
    with torch.no_grad():
        weight.sub_(2e-6 * nudge)
    below = objective(x, y, INDEX, 0).loss.item()
    assert float((slope * nudge).sum()) == pytest.approx((above - below) / 2e-6, rel=1e-4)


def test_the_papers_factor() -> None:
    objective = OBJECTIVES.build("soar-paper", {}, TinyNet(), Linf("8/255"))
    assert isinstance(objective, SOAR)
    assert objective.factor(torch.zeros(1, 3, 32, 32), 0) == pytest.approx(0.8779, abs=1e-4)
    assert (objective.fd_step, objective.max_norm, objective.num_directions) == (0.01, 10.0, 1)
    assert (objective.init.kind, objective.init.share) == ("pgd-1", 0.5)


def test_the_default_differs_from_the_paper_in_what_its_docstring_lists() -> None:
    assert OBJECTIVES["soar-paper"].build is SOARPaper
    ours, papers = (build(TinyNet(), Linf("8/255")) for build in (SOAR, SOARPaper))
    assert (ours.init.share, ours.init.remaining) == (1.0, 0.5)
    assert (papers.init.share, papers.init.remaining) == (0.5, 0.5)
    assert (ours.hvp, papers.hvp, papers.fd_step) == ("gauss-newton", "finite-difference", 0.01)
    assert (ours.loss_scale, papers.loss_scale) == (1 / 64, 1.0)
    assert (ours.max_norm, papers.max_norm) == (None, 10.0)
    assert (ours.batchnorm_stats, papers.batchnorm_stats) == ("running", "batch")
    assert (ours.penalty_floor, papers.penalty_floor) == (False, True)
    rest = (
        "num_directions",
        "penalty_weight",
        "penalty_fraction",
        "penalty_warmup_steps",
        "penalty_grad_clip",
    )
    assert all(getattr(ours, name) == getattr(papers, name) for name in rest)
    assert "The paper's version is `SOARPaper`" in (SOAR.__doc__ or "").split("Args:")[0]


def test_clamped_examples_have_no_gradient_and_are_counted() -> None:
    model, x, y = problem()
    clamped = SOAR(model, Linf(0.1), loss_scale=100.0, max_norm=1e-3, penalty_floor=True)
    found = clamped(x, y, INDEX, 0)
    assert found.metrics["clamped"] == 1
    assert found.metrics["penalty"].item() == pytest.approx(clamped.factor(x, 0) * 1e-3)
    plain = Adversarial(model, Linf(0.1), steps=1, step_size="0.1")(x, y, INDEX, 0)
    parameters = list(model.parameters())
    ours = torch.autograd.grad(found.loss, parameters)
    theirs = torch.autograd.grad(plain.loss, parameters)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("product", ["finite-difference", "exact", "gauss-newton"])
def test_the_floor_is_what_no_weights_change(product: Any) -> None:
    model, x, y = problem()
    losses, gradients = [], []
    for floor in (False, True):
        objective = SOAR(model, Linf(0.1), hvp=product, num_directions=2, penalty_floor=floor)
        losses.append(objective(x, y, INDEX, 4).loss)
        gradients.append(torch.autograd.grad(losses[-1], list(model.parameters())))
    last = [randomness.key(0, INDEX, f"soar direction {k}", 4) for k in range(2)]
    z = torch.stack([curvature.draw_direction(key, SHAPE, torch.float64).last for key in last])
    torch.testing.assert_close(losses[1] - losses[0], objective.factor(x, 4) * z.abs().mean())
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


def test_a_flat_loss_has_no_penalty_at_any_size() -> None:
    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.level = nn.Parameter(torch.zeros(3, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return self.level + 0 * x.flatten(1).sum(dim=1, keepdim=True)

    for side in (4, 32):
        x = torch.full((2, 1, side, side), 0.5, dtype=torch.float64)
        found = SOAR(Flat(), Linf("8/255"))(x, torch.tensor([0, 1]))
        assert found.metrics["penalty"].abs() < 1e-12
        assert found.loss.item() == pytest.approx(math.log(3))


def test_the_weight_warms_up() -> None:
    model, x, _ = problem()
    objective = SOAR(model, Linf(0.1), penalty_warmup_steps=4, penalty_weight=2.0)
    full = SOAR(model, Linf(0.1), penalty_weight=2.0).factor(x, 0)
    assert [objective.factor(x, step) / full for step in range(6)] == pytest.approx(
        [0.25, 0.5, 0.75, 1, 1, 1]
    )


@pytest.mark.parametrize(
    "options, training",
    [
        ({}, 1),
        ({"num_directions": 3}, 3),
        ({"hvp": "finite-difference"}, 2),
        ({"hvp": "finite-difference", "num_directions": 3}, 4),
        ({"hvp": "exact"}, 2),
        ({"penalty_fraction": 0.5}, 2),
        ({"penalty_fraction": 0.5, "hvp": "finite-difference"}, 3),
        ({"batchnorm_stats": "running"}, 1),
    ],
)
def test_passes_are_the_arithmetic_of_the_method(options: dict[str, Any], training: int) -> None:
    model, x = Passes(), images(3)
    SOAR(model, Linf(0.1), **options)(x, said(model.model, x))
    assert model.modes == [False] + [True] * training


@pytest.mark.parametrize(
    "options",
    [
        {"hvp": "exact"},
        {"hvp": "finite-difference"},
        {"init": "zero"},
        {"max_norm": 10.0},
        {"num_directions": 2},
    ],
    ids=str,
)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: SOAR(model, threat, **options))


@pytest.mark.parametrize("kind", ["batch", "running"])
def test_only_the_first_pass_counts_for_batch_norm(kind: Any) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Softplus(), nn.Flatten(), nn.LazyLinear(2)
        )
        model(images(2).float())
    norm = model[1]
    assert isinstance(norm, nn.BatchNorm2d)
    norm.reset_running_stats()
    x, y = images(6).float(), torch.tensor([0, 1, 0, 1, 0, 1])
    SOAR(model, Linf(0.1), init="zero", batchnorm_stats=kind)(x, y).loss.backward()
    assert int(norm.get_buffer("num_batches_tracked")) == 1
    assert norm.training and norm.track_running_stats


@pytest.mark.parametrize("build", [SOAR, SOARPaper])
def test_batch_norm_needs_no_warning(build: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(nn.Sequential(nn.BatchNorm2d(1), TinyNet()), Linf(0.1))


def test_with_running_statistics_curvature_is_each_examples_own() -> None:
    def penalty(rows: slice) -> Tensor:
        norm = nn.BatchNorm2d(1, momentum=0.0).double()
        model, x, y = problem()
        objective = SOAR(nn.Sequential(norm, model), Linf(0.1), init="zero")
        found: Tensor = objective(x[rows], y[rows], INDEX[rows], 0).metrics["penalty"]
        return found

    alone = torch.stack([penalty(slice(i, i + 1)) for i in range(4)])
    assert alone.std() > 0
    torch.testing.assert_close(penalty(slice(None)), alone.mean())


def test_autocast_around_it_changes_nothing() -> None:
    model, x, y = problem()
    model.float()
    objective = SOAR(model, Linf(0.1))
    plain = objective(x.float(), y, INDEX, 0).loss
    with torch.autocast("cpu", torch.bfloat16):
        inside = objective(x.float(), y, INDEX, 0).loss
    # The start may differ: the attack before it runs in the caller's precision.
    assert inside.dtype == torch.float32
    torch.testing.assert_close(inside, plain, rtol=0.05, atol=0.05)
    assert not SOAR.allows_bfloat16


def test_under_autocast_only_the_loss_outside_of_the_part_is_computed_in_half_precision() -> None:
    model, x, y = problem()
    model.float()
    objective = SOAR(model, Linf(0.1), init="zero", penalty_fraction=0.5)
    plain = objective(x.float(), y, INDEX, 0)
    with torch.autocast("cpu", torch.bfloat16):
        inside = objective(x.float(), y, INDEX, 0)
    for name in ("penalty", "curvature", "gradient_norm"):
        assert torch.equal(inside.metrics[name], plain.metrics[name])
    half = len(y) // 2
    assert torch.equal(inside.logits[:half], plain.logits[:half])
    assert not torch.equal(inside.logits[half:], plain.logits[half:])
    torch.testing.assert_close(inside.loss, plain.loss, rtol=0.02, atol=0.02)
    inside.loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(
    "options, message",
    [
        ({"fd_step": 0.0}, r"objective\.fd_step: got 0\.0, expected above 0"),
        ({"num_directions": 0}, r"objective\.num_directions: got 0, expected at least 1"),
        ({"max_norm": -1.0}, r"objective\.max_norm: got -1\.0"),
        ({"penalty_weight": -0.1}, r"objective\.penalty_weight: got -0\.1, expected at least 0"),
        ({"penalty_fraction": 0.0}, r"objective\.penalty_fraction: got 0\.0, expected above 0 and at most 1"),
        ({"penalty_fraction": 1.5}, r"objective\.penalty_fraction: got 1\.5"),
        ({"hvp": "exat"}, "did you mean 'exact'"),
        ({"batchnorm_stats": "eval"}, "unknown batchnorm_stats 'eval'"),
        ({"init": "fgsm"}, r"objective\.init: got 'fgsm'"),
    ],
)
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SOAR(TinyNet(), Linf(0.1), **options)


class _NoDual(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class OwnLayer(nn.Module):
    """Has a layer that knows no forward-mode derivative, as people's own functions do."""

    def __init__(self) -> None:
        super().__init__()
        self.model = TinyNet()

    def forward(self, x: Tensor) -> Tensor:
        return self.model(_NoDual.apply(x))  # type: ignore[no-any-return, no-untyped-call]


def test_layers_without_forward_derivatives_are_differentiated_backward_and_told_of_once() -> None:
    model, x = OwnLayer(), images(3)
    y = said(model, x)
    objective = SOAR(model, Linf(0.1))
    told = r"^model: has no forward derivatives that SOAR .* \(NotImplementedError: .* jvp .*, in the model"
    with pytest.warns(UserWarning, match=told) as caught:
        found = objective(x, y, INDEX[:3], 0)
    assert len(caught) == 1
    ordinary = SOAR(model.model, Linf(0.1))(x, y, INDEX[:3], 0)
    torch.testing.assert_close(found.loss, ordinary.loss)
    for one, other in zip(
        torch.autograd.grad(found.loss, list(model.parameters())),
        torch.autograd.grad(ordinary.loss, list(model.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objective(x, y, INDEX[:3], 1)
