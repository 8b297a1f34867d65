from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import randomness
from soar.attacks.recall import Recall, recalled
from soar.objectives import NFGSM, Objective, check_objective
from soar.objectives.one_step import Step, step_from
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, images
from tests.objectives import shared
from tests.objectives.shared import INDEX, STEP, for_threats, problem


def found_by(objective: Objective, x: Tensor, y: Tensor) -> Step:
    recall = Recall()
    with recall.recording():
        objective(x, y, INDEX, STEP)
    with recall.replaying():
        return recalled(lambda: Step(x, x))


def noisy(x: Tensor, threat: Threat, noise: float = 2.0, seed: int = 0) -> Tensor:
    """x + n, for images so far inside the pixel range that it limits nothing."""
    keys = randomness.key(seed, INDEX, "nfgsm noise", STEP)
    if isinstance(threat, Linf):
        return x + noise * threat.radius * (2 * randomness.uniform(keys, SHAPE, torch.float64) - 1)
    draws = randomness.normal(keys, (14,), torch.float64)
    inside = torch.nn.functional.normalize(draws)[:, :12]
    return x + noise * threat.radius * inside.reshape(x.shape)


def stepped(model: nn.Module, threat: Threat, start: Tensor, y: Tensor, length: float) -> list[Tensor]:
    """Where one step from each start ends, example by example."""
    ends = []
    for point, label in zip(start, y, strict=True):
        leaf = point.clone().requires_grad_()
        (slope,) = torch.autograd.grad(shared.loss_of(model, leaf, label), leaf)
        ends.append(point + length * (slope.sign() if isinstance(threat, Linf) else slope / slope.norm()))
    return ends


@for_threats
@pytest.mark.parametrize("options", [{}, {"noise": 0.5, "step_eps_fraction": 1.5, "seed": 4}], ids=str)
def test_loss_and_gradient_are_the_formula_written_out(threat: Threat, options: dict[str, Any]) -> None:
    model, x, y = problem()
    found = NFGSM(model, threat, **options)(x, y, INDEX, STEP)
    start = noisy(x, threat, options.get("noise", 2.0), options.get("seed", 0))
    length = options.get("step_eps_fraction", 1.0) * threat.radius
    points = torch.stack(stepped(model, threat, start, y, length))
    losses = torch.stack(
        [shared.loss_of(model, point, label) for point, label in zip(points, y, strict=True)]
    )
    shared.assert_same_loss_and_gradients(model, found.loss, losses.mean())
    torch.testing.assert_close(found.logits, model(points).detach())


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([Linf, L2]), st.floats(0.001, 0.9), st.floats(0.1, 4))
def test_points_are_images_no_further_than_noise_and_step(
    seed: int, norm: type[Threat], eps: float, noise: float
) -> None:
    model, _, y = problem()
    keys = randomness.key(seed, INDEX, "anywhere")
    x = (1.5 * randomness.uniform(keys, SHAPE, torch.float64) - 0.25).clamp(0, 1)
    points = found_by(NFGSM(model, norm(eps), noise=noise, seed=seed), x, y).points
    assert not points.requires_grad and points.min() >= 0 and points.max() <= 1
    assert (norm(eps).norm(points - x) <= (noise + 1) * eps + 1e-9).all()


def test_training_points_leave_the_ball() -> None:
    model, x, y = problem()
    points = found_by(NFGSM(model, Linf("0.05")), x, y).points
    reached = Linf("0.05").norm(points - x)
    assert (reached > 0.1).all() and (reached <= 0.15).all()


@for_threats
def test_alignment_is_the_cosine_of_both_gradients_and_costs_no_pass(threat: Threat) -> None:
    model, x, y = problem()
    objective = NFGSM(model, threat)
    found = objective(x, y, INDEX, STEP)
    assert found.metrics["alignment"].isnan()
    found.loss.backward()
    start = noisy(x, threat)
    ends = stepped(model, threat, start, y, threat.radius)
    cosines = []
    for point, end, label in zip(start, ends, y, strict=True):
        slopes = []
        for place in (point, end):
            leaf = place.clone().requires_grad_()
            slopes.append(torch.autograd.grad(shared.loss_of(model, leaf, label), leaf)[0])
        cosines.append((slopes[0] * slopes[1]).sum() / slopes[0].norm() / slopes[1].norm())
    torch.testing.assert_close(found.metrics["alignment"], torch.stack(cosines).mean())
    assert shared.passes_of(NFGSM) == (2, 2)


def test_alignment_of_a_linear_model_is_1_and_falls_where_the_loss_bends() -> None:
    linear, x, y = shared.linear_problem()
    straight = NFGSM(linear, Linf("0.3"))(x, y)
    straight.loss.backward()
    assert straight.metrics["alignment"].item() == pytest.approx(1)
    model, x, y = problem()
    weak, strong = (NFGSM(model, Linf(eps))(x, y, INDEX, STEP) for eps in ("1/1000", "0.2"))
    (weak.loss + strong.loss).backward()
    assert weak.metrics["alignment"].item() > 0.99999 and strong.metrics["alignment"].item() < 0.995


def test_the_step_is_made_in_eval_mode_and_the_loss_in_training() -> None:
    assert shared.modes_of(NFGSM) == [False, True]


def test_only_the_attacked_points_count_for_batch_norm() -> None:
    _, x, y = problem()
    norm = nn.BatchNorm2d(1).double()
    objective = NFGSM(nn.Sequential(norm, problem()[0]), Linf("0.05"))
    points = found_by(objective, x, y).points
    assert int(norm.get_buffer("num_batches_tracked")) == 1
    torch.testing.assert_close(norm.get_buffer("running_mean"), 0.1 * points.mean(dim=(0, 2, 3)))


def test_a_gradient_of_nan_costs_an_example_its_step_only() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            flat = x.flatten(1)
            return torch.stack([(flat[:, 0] - 0.5).clamp(min=0).sqrt() * 0 + flat.sum(dim=1), -flat[:, 1]], 1)

    x = images(2)
    x[0, 0, 0, 0] = 0.5
    found = step_from(Broken(), Linf("0.1"), x, torch.tensor([1, 1]), 0.1)
    assert found.points.isfinite().all() and found.points[0, 0, 0, 0] == 0.5
    assert (found.points[1] != x[1]).all()


def test_starts_depend_on_seed_step_and_index() -> None:
    model, x, y = problem()
    objective, other = NFGSM(model, Linf("0.1")), NFGSM(model, Linf("0.1"), seed=1)
    losses = [
        objective(x, y, INDEX, 0).loss,
        objective(x, y, INDEX, 1).loss,
        objective(x, y, INDEX + 1, 0).loss,
        other(x, y, INDEX, 0).loss,
    ]
    assert len({loss.item() for loss in losses}) == 4


@pytest.mark.parametrize("options", [{"noise": 0.1}, {"step_eps_fraction": 0.5, "noise": 3.0}], ids=str)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: NFGSM(model, threat, **options))


@shared.for_refusals(shared.zero("noise"), shared.zero("step_eps_fraction"))
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    shared.assert_refused(NFGSM, options, message)


def test_it_needs_a_threat() -> None:
    shared.assert_refused_without_a_threat(NFGSM)
