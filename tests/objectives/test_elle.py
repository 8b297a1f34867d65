from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import checkpoints, randomness
from soar.attacks.recall import Recall
from soar.objectives import ELLE, Standard, check_objective
from soar.objectives.elle import AdaptiveWeight, usual_weight
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import images
from tests.objectives import shared
from tests.objectives.shared import INDEX, STEP, for_threats, problem
from tests.objectives.test_llr import Bowl
from tests.objectives.test_mma import Interrupt
from tests.training import small


def corners(x: Tensor, threat: Threat, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """a, b and t."""
    a, b = (threat.random_start(x, randomness.key(seed, INDEX, f"elle {end}", STEP)) for end in "ab")
    return a, b, randomness.uniform(randomness.key(seed, INDEX, "elle t", STEP), dtype=torch.float64)


def errors(model: nn.Module, x: Tensor, y: Tensor, threat: Threat, seed: int = 0) -> Tensor:
    """The squared error of linearity, example by example."""
    found = []
    for a, b, t, label in zip(*corners(x, threat, seed), y, strict=True):
        at_a, at_b, at_c = (shared.loss_of(model, point, label) for point in (a, b, (1 - t) * a + t * b))
        found.append((at_c - (1 - t) * at_a - t * at_b) ** 2)
    return torch.stack(found)


@for_threats
@pytest.mark.parametrize("options", [{}, {"weight": 70.0, "seed": 4}], ids=str)
def test_loss_and_gradient_are_the_formula_written_out(threat: Threat, options: dict[str, Any]) -> None:
    model, x, y = problem()
    found = ELLE(model, threat, **options)(x, y, INDEX, STEP)
    default = 5000.0 if isinstance(threat, Linf) else 1000.0
    losses = []
    for image, label in zip(x, y, strict=True):
        leaf = image.clone().requires_grad_()
        (g,) = torch.autograd.grad(shared.loss_of(model, leaf, label), leaf)
        end = image + threat.radius * (g.sign() if isinstance(threat, Linf) else g / g.norm())
        losses.append(shared.loss_of(model, end, label))
    penalty = options.get("weight", default) * errors(model, x, y, threat, options.get("seed", 0))
    shared.assert_same_loss_and_gradients(
        model, found.loss, (torch.stack(losses) + penalty).mean(), rtol=1e-8
    )
    torch.testing.assert_close(found.metrics["penalty"], penalty.mean().detach())


@for_threats
@pytest.mark.parametrize("curvature", [0.0, 3.0])
def test_the_error_of_a_bowl_is_the_closed_form(threat: Threat, curvature: float) -> None:
    # A quadratic of curvature c lies t (1 - t) c / 2 ||a - b||^2 below the line through two of its points.
    model, x, y = Bowl(curvature), images(6), torch.zeros(6, dtype=torch.int64)
    a, b, t = corners(x, threat)
    below = curvature / 2 * t * (1 - t) * (a - b).flatten(1).square().sum(dim=1)
    found = ELLE(model, threat)(x, y, INDEX, STEP).metrics["linearity_error"]
    assert found.item() == pytest.approx(below.square().mean().item(), rel=1e-9, abs=1e-20)


@pytest.mark.parametrize(
    "threat, weight",
    [(Linf("8/255"), 1e3), (Linf("81/2550"), 5e3), (Linf("20/255"), 5e3), (Linf("0.1"), 1e4), (L2(5), 1e3)],
    ids=str,
)
def test_the_usual_weight_follows_eps(threat: Threat, weight: float) -> None:
    assert usual_weight(threat) == weight


series = st.lists(st.floats(0, 10), min_size=1, max_size=30)


@given(series, st.floats(0.1, 10_000))
def test_the_adaptive_weight_is_the_rule_written_out(given_errors: list[float], highest: float) -> None:
    adaptive, weight = AdaptiveWeight(highest), 0.0
    for step, error in enumerate(given_errors):
        assert adaptive.after(torch.tensor(error), step, 1) == pytest.approx(weight, rel=1e-12)
        before = [torch.tensor(one).double().item() for one in given_errors[:step]]
        limit = statistics.fmean(before) + 2 * statistics.pstdev(before) if step >= 2 else torch.inf
        number = torch.tensor(error).double().item()
        if abs(number - limit) < 1e-9:
            return
        weight = highest if number > limit else 0.99 * weight


@given(series, st.integers(2, 4))
def test_micro_batches_share_a_weight_and_count_as_their_mean(given_errors: list[float], parts: int) -> None:
    whole, split = AdaptiveWeight(10.0), AdaptiveWeight(10.0)
    for step, error in enumerate(given_errors):
        whole.after(torch.tensor(error, dtype=torch.float64), step, 1)
        shares = [error + shift for shift in torch.linspace(-1, 1, parts).double().tolist()]
        found = [split.after(torch.tensor(share, dtype=torch.float64), step, parts) for share in shares]
        assert found == [found[0]] * parts
        assert split.state[1] == whole.state[1] == step + 1
        torch.testing.assert_close(split.state[2:], whole.state[2:], rtol=1e-6, atol=1e-6)


def test_an_unfinished_update_is_forgotten() -> None:
    adaptive = AdaptiveWeight(1.0)
    adaptive.after(torch.tensor(100.0), 0, 2)
    for _ in range(2):
        adaptive.after(torch.tensor(1.0), 1, 2)
    assert adaptive.state.tolist() == [0, 1, 1, 0]


def test_an_unusual_error_sets_the_weight_of_the_next_update() -> None:
    model, x, y = problem()
    objective = ELLE(model, Linf("0.001"), adaptive=True, weight=7.0)
    weights = []
    for step, eps in enumerate(["0.001"] * 3 + ["0.2"] + ["0.001"] * 2):
        objective.threat = Linf(eps)
        found = objective(x, y, INDEX, step)
        weights.append(found.metrics["penalty_weight"].item())
        expected = weights[-1] * found.metrics["linearity_error"]
        torch.testing.assert_close(found.metrics["penalty"], expected)
    assert weights[3:] == pytest.approx([weights[3], 7.0, 0.99 * 7.0]) and weights[:2] == [0, 0]
    assert ELLE(model, Linf("0.1"), adaptive=True).adaptive_weight is not None


def test_the_adaptive_default_is_4000() -> None:
    made = ELLE(problem()[0], Linf("0.1"), adaptive=True).adaptive_weight
    assert made is not None and made.highest == 4000
    assert ELLE(problem()[0], Linf("0.1")).adaptive_weight is None


def test_a_second_pass_over_a_batch_counts_no_error() -> None:
    model, x, y = problem()
    objective, recall = ELLE(model, Linf("0.05"), adaptive=True), Recall()
    made = objective.adaptive_weight
    assert made is not None
    with recall.recording():
        objective(x, y, INDEX, STEP)
    state = made.state.clone()
    with recall.replaying():
        objective(x, y, INDEX, STEP)
    assert torch.equal(made.state, state) and state[1] == 1


@pytest.mark.parametrize("at", [5, 9])
def test_an_interrupted_training_resumes_with_its_weight(tmp_path: Path, at: int) -> None:
    def objective() -> ELLE:
        return ELLE(small.network(), Linf("32/255"), adaptive=True)

    def state(made: ELLE) -> Tensor:
        assert made.adaptive_weight is not None
        return made.adaptive_weight.state

    whole, first, second = objective(), objective(), objective()
    straight = small.trainer(tmp_path / "whole", objective=whole)
    straight.fit()
    run = tmp_path / "parts"
    assert small.trainer(run, objective=first, sinks=[Interrupt(at)]).fit().steps == at
    newest = checkpoints.newest_usable(run)
    assert newest is not None
    saved = torch.load(newest / "trainer.pt", weights_only=True)["objective"]
    assert torch.equal(saved["_extra_state"], state(first)) and state(first)[1] == at
    resumed = small.trainer(run, objective=second, resume=True)
    assert resumed.fit().status == "finished"
    assert torch.equal(state(second), state(whole)) and state(whole)[1] == 18
    assert small.same(small.weights(resumed), small.weights(straight))
    assert small.rows(run) == small.rows(tmp_path / "whole")
    assert any(row.get("penalty_weight", 0) > 0 for row in small.rows(run)), "the weight has been used"


@for_threats
def test_alignment_is_the_cosine_at_both_ends_of_the_step(threat: Threat) -> None:
    model, x, y = problem()
    found = ELLE(model, threat)(x, y, INDEX, STEP)
    found.loss.backward()
    leaf = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(torch.nn.functional.cross_entropy(model(leaf), y), leaf)
    leaf = (x + threat.radius * threat.ascent(first)).requires_grad_()
    (second,) = torch.autograd.grad(torch.nn.functional.cross_entropy(model(leaf), y), leaf)
    expected = torch.nn.functional.cosine_similarity(first.flatten(1), second.flatten(1)).mean()
    torch.testing.assert_close(found.metrics["alignment"], expected)


def test_passes_are_the_arithmetic_of_the_method() -> None:
    assert shared.modes_of(ELLE) == [False] + [True] * 4
    assert shared.passes_of(ELLE) == (5, 5)


def test_only_the_attacked_points_count_for_batch_norm() -> None:
    model, x, y = problem()
    norm = nn.BatchNorm2d(1).double()
    asked: list[Tensor] = []
    norm.register_forward_pre_hook(lambda _, given: asked.append(given[0].detach()))
    ELLE(nn.Sequential(norm, model), Linf("0.05"))(x, y, INDEX, STEP).loss.backward()
    assert int(norm.get_buffer("num_batches_tracked")) == 1
    torch.testing.assert_close(norm.get_buffer("running_mean"), 0.1 * asked[1].mean(dim=(0, 2, 3)))


def test_smoothed_labels_change_the_classification_and_nothing_else() -> None:
    model, x, y = problem()
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(Standard(model)(leaf, y).loss, leaf)
    shared.assert_smoothing_changes_the_classification_alone(
        ELLE(model, Linf("0.05"), weight=3.0), x + 0.05 * slope.sign(), x, y, "penalty", "linearity_error"
    )


def test_under_autocast_the_error_is_still_computed_in_float32() -> None:
    model, x, y = problem()
    objective = ELLE(model.float(), Linf(0.1))
    plain = objective(x.float(), y, INDEX, STEP)
    with torch.autocast("cpu", torch.bfloat16):
        inside = objective(x.float(), y, INDEX, STEP)
    assert torch.equal(inside.metrics["linearity_error"], plain.metrics["linearity_error"])
    assert inside.logits.dtype == torch.bfloat16 and inside.loss.dtype == torch.float32


@pytest.mark.parametrize("options", [{"weight": 0.0}, {"adaptive": True}], ids=str)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: ELLE(model, threat, **options))


@shared.for_refusals(
    shared.negative("weight"),
    (
        {"adaptive": "no"},
        "objective.adaptive: got 'no', expected True or False (flag --objective.adaptive)",
    ),
)
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    shared.assert_refused(ELLE, options, message)


def test_it_needs_a_threat() -> None:
    shared.assert_refused_without_a_threat(ELLE)
