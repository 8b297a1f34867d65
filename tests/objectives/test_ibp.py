from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import randomness
from soar.errors import UserError
from soar.objectives import IBP, Standard, check_objective
from soar.threat import L2, Linf, Threat
from soar.training.schedules import eps_factor
from tests.attacks.problems import SHAPE, Linear, Passes, images, said
from tests.objectives import shared
from tests.objectives.shared import INDEX, STEP, for_threats
from tests.training import small


def mlp(seed: int = 0, classes: int = 5) -> nn.Sequential:
    """Two hidden layers of ReLUs in float64, far from a constant."""
    layers = nn.Flatten(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, classes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(*layers)
        for layer in layers:
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()
    model.to(torch.float64)
    for parameter in model.parameters():
        parameter.data.mul_(1.5)
    return model


def problem(seed: int = 0) -> tuple[nn.Sequential, Tensor, Tensor]:
    model, x = mlp(seed), images(6)
    y = said(model, x)
    y[4:] = (y[4:] + 1) % 5
    return model, x, y


def worst_losses(model: nn.Sequential, x: Tensor, y: Tensor, threat: Threat) -> list[Tensor]:
    """The cross-entropy of the worst logits, image by image, by matrices of positive and negative weights."""
    first, second, last = (layer for layer in model if isinstance(layer, nn.Linear))
    losses = []
    for image, label in zip(x.flatten(1), y.tolist(), strict=True):
        if isinstance(threat, Linf):
            low, high = (image - threat.radius).clamp(min=0), (image + threat.radius).clamp(max=1)
            positive, negative = first.weight.clamp(min=0), first.weight.clamp(max=0)
            lower = positive @ low + negative @ high + first.bias
            upper = positive @ high + negative @ low + first.bias
        else:
            middle, reach = first(image), threat.radius * first.weight.square().sum(dim=1).sqrt()
            lower, upper = middle - reach, middle + reach
        low, high = lower.clamp(min=0), upper.clamp(min=0)
        positive, negative = second.weight.clamp(min=0), second.weight.clamp(max=0)
        lower = positive @ low + negative @ high + second.bias
        upper = positive @ high + negative @ low + second.bias
        low, high = lower.clamp(min=0), upper.clamp(min=0)
        worst = []
        for other in range(len(last.bias)):
            row, shift = last.weight[other] - last.weight[label], last.bias[other] - last.bias[label]
            worst.append(row.clamp(min=0) @ high + row.clamp(max=0) @ low + shift)
        losses.append(torch.stack(worst).exp().sum().log())
    return losses


@for_threats
@pytest.mark.parametrize("kappa", [None, 0.0, 0.8])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_loss_and_gradient_are_the_formula_written_out(
    threat: Threat, kappa: float | None, smoothing: float
) -> None:
    model, x, y = problem()
    objective = IBP(model, threat) if kappa is None else IBP(model, threat, kappa=kappa)
    objective.label_smoothing = smoothing
    found = objective(x, y, INDEX, STEP)
    k = 0.5 if kappa is None else kappa
    log_p = model(x).softmax(dim=1).log()
    own = torch.stack([-log_p[i, y[i]] for i in range(6)])
    natural = ((1 - smoothing) * own - smoothing * log_p.mean(dim=1)).mean()
    worst = torch.stack(worst_losses(model, x, y, threat)).mean()
    shared.assert_same_loss_and_gradients(model, found.loss, k * natural + (1 - k) * worst)
    torch.testing.assert_close(found.logits, model(x).detach())
    torch.testing.assert_close(found.metrics["cross_entropy"], natural.detach())
    torch.testing.assert_close(found.metrics["worst_cross_entropy"], worst.detach())


def test_on_a_linear_model_it_is_the_loss_of_the_worst_perturbation() -> None:
    # Two classes: the margin grows by at most eps ||w||_1, so the worst loss is softplus(m + eps ||w||_1).
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(12, 2, bias=False)).double(), images(8)
    weight = Linear(classes=2).weight.detach().flatten(1)
    next(model.parameters()).data.copy_(weight)
    y = said(model, x)
    w = weight[1] - weight[0]
    clean = model(x)
    margin = clean.gather(1, 1 - y[:, None])[:, 0] - clean.gather(1, y[:, None])[:, 0]
    worst = margin + 0.1 * w.abs().sum()
    found = IBP(model, Linf("0.1"), kappa=0.0)(x, y)
    torch.testing.assert_close(found.loss, F.softplus(worst).mean())
    assert 0 < found.metrics["certified"] == (worst < 0).double().mean() < 1


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([Linf, L2]), st.floats(0.001, 0.3))
def test_no_image_that_the_threat_allows_has_a_higher_loss(seed: int, norm: type[Threat], eps: float) -> None:
    model, x, y = problem(seed)
    threat = norm(eps)
    bound = IBP(model, threat, kappa=0.0)(x, y).loss
    keys = randomness.key(seed, INDEX, "anywhere")
    corners = threat.project(x + 10 * eps * randomness.normal(keys, SHAPE, torch.float64).sign(), x)
    for points in (x, threat.random_start(x, keys), corners):
        assert F.cross_entropy(model(points), y) <= bound


def test_kappa_follows_the_radius_from_1_to_its_value() -> None:
    model, x, y = problem()
    objective = IBP(model, Linf("0.1"), kappa=0.25)
    for eps, k in (("0.00001", 1 - 0.75 / 10_000), ("0.025", 0.8125), ("0.05", 0.625), ("0.1", 0.25)):
        objective.threat = Linf(eps)
        found = objective(x, y, INDEX, STEP)
        parts = found.metrics["cross_entropy"], found.metrics["worst_cross_entropy"]
        torch.testing.assert_close(found.loss.detach(), k * parts[0] + (1 - k) * parts[1])
    objective.threat = Linf("0.2")
    assert objective(x, y, INDEX, STEP).loss > found.loss, "beyond the full radius kappa stays"
    objective.threat = Linf("1/1000000")
    torch.testing.assert_close(objective(x, y).loss, Standard(model)(x, y).loss, rtol=1e-3, atol=1e-6)


def test_the_trainer_warms_up_radius_and_kappa_together_and_resumes_there(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"epochs": 2, "eps_warmup_epochs": 1.5}

    def train(run: Path, **more: Any) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
        objective = IBP(small.network(), Linf("8/255"), kappa=0.25)
        made = small.trainer(run, objective=objective, **changes, **more)
        made.fit()
        return small.weights(made), [row for row in small.rows(run) if row["kind"] == "train"]

    weights, rows = train(tmp_path / "whole")
    for step, row in enumerate(rows):
        factor = float(eps_factor(small.settings(**changes), step, 6))
        assert row["eps"] == pytest.approx(factor * 8 / 255)
        k = 1 - 0.75 * factor
        expected = k * row["cross_entropy"] + (1 - k) * row["worst_cross_entropy"]
        assert row["loss"] == pytest.approx(expected, rel=1e-5)
    train(tmp_path / "parts", max_steps=5)
    resumed, same = train(tmp_path / "parts", resume=True)
    assert small.same(resumed, weights) and same == rows


def test_it_takes_one_pass_in_training_mode() -> None:
    assert shared.passes_of(IBP) == (1, 1)
    passes, x = Passes(), images(3)
    IBP(passes, Linf(0.1))(x, said(passes.model, x))
    assert passes.modes == [True]


def test_batch_norm_normalizes_intervals_by_the_images() -> None:
    model, x, y = problem()
    norm = nn.BatchNorm2d(1).double()
    found = IBP(nn.Sequential(norm, model), Linf("0.05"))(x, y)
    torch.testing.assert_close(norm.get_buffer("running_mean"), 0.1 * x.mean(dim=(0, 2, 3)))
    assert int(norm.get_buffer("num_batches_tracked")) == 1
    scale = float((x.var(correction=0) + norm.eps).rsqrt())
    folded = mlp()
    first = folded[1]
    assert isinstance(first, nn.Linear)
    first.bias.data.sub_(first.weight.data.sum(dim=1) * scale * float(x.mean()))
    first.weight.data.mul_(scale)
    torch.testing.assert_close(found.loss, IBP(folded, Linf("0.05"))(x, y).loss)


def test_autocast_changes_nothing() -> None:
    model, x, y = problem()
    shared.assert_autocast_changes_nothing(IBP, (model, x, y))  # type: ignore[arg-type]


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_every_option_keeps_the_contract(kappa: float) -> None:
    check_objective(lambda model, threat: IBP(model, threat, kappa=kappa), norms=("linf", "l2"))


def test_a_layer_without_a_bound_is_refused_by_name() -> None:
    class Sorted(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1).sort(dim=1).values

    model = nn.Sequential(Sorted(), nn.Linear(12, 5).double())
    with pytest.raises(UserError, match=r"^model: got torch's `sort`.* in '0'; "):
        IBP(model, Linf("0.1"))(images(2), torch.tensor([0, 1]))


@shared.for_refusals(
    ({"kappa": 1.5}, "objective.kappa: got 1.5, expected from 0 to 1 (flag --objective.kappa)"),
    ({"kappa": -1}, "objective.kappa: got -1, expected from 0 to 1 (flag --objective.kappa)"),
)
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    shared.assert_refused(IBP, options, message)


def test_it_needs_a_threat() -> None:
    shared.assert_refused_without_a_threat(IBP)
