from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from soar import randomness
from soar.attacks import PGD, perturb
from soar.errors import UserError
from soar.losses import cross_entropy
from soar.objectives import OBJECTIVES, RSFGSM, Adversarial, Standard, check_objective
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, Linear, Passes, TinyNet, images, said
from tests.objectives import shared
from tests.training import small


def test_loss_on_a_linear_model_is_the_closed_form() -> None:
    # Two classes: the margin grows by at most eps ||w||_q, so the worst loss is softplus(m + eps ||w||_q).
    model, x = Linear(classes=2), images(8)
    y = said(model, x)
    w = (model.weight[1] - model.weight[0]).flatten().detach()
    kinds: list[tuple[Threat, int]] = [(Linf("0.05"), 1), (L2("0.1"), 2)]
    for threat, dual in kinds:
        clean = model(x)
        margin = clean.gather(1, 1 - y[:, None])[:, 0] - clean.gather(1, y[:, None])[:, 0]
        reach = threat.radius * torch.linalg.vector_norm(w, ord=dual)
        expected = torch.nn.functional.softplus(margin + reach).mean()
        found = Adversarial(model, threat, steps=60)(x, y).loss
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("sigma", [0.25, 1.0])
def test_standard_with_noise_is_the_cross_entropy_at_noisy_images_that_are_not_clipped(sigma: float) -> None:
    model, x, index = TinyNet(), images(6), torch.arange(6) + 40
    y = said(model, x)
    keys = randomness.key(4, index, "standard noise", 7)
    noisy = x + sigma * randomness.normal(keys, SHAPE, torch.float64)
    found = Standard(model, sigma=sigma, seed=4)(x, y, index, 7)
    torch.testing.assert_close(found.loss, cross_entropy(model(noisy), y).mean())
    torch.testing.assert_close(found.logits, model(noisy).detach())
    assert noisy.min() < 0 or noisy.max() > 1


def test_noise_is_normal_and_new_for_every_image_step_and_seed() -> None:
    seen: list[Tensor] = []
    model = TinyNet()
    model.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    x, y = torch.full((500, *SHAPE), 0.5, dtype=torch.float64), torch.zeros(500, dtype=torch.int64)
    for seed, first, step in ((0, 0, 0), (0, 0, 0), (0, 0, 1), (0, 500, 0), (1, 0, 0)):
        Standard(model, sigma=0.25, seed=seed)(x, y, torch.arange(first, first + 500), step)
    once, again, *others = (points - 0.5 for points in seen)
    assert torch.equal(once, again)
    for noise in (once, *others):
        assert abs(noise.mean()) < 0.01 and noise.std().item() == pytest.approx(0.25, abs=0.01)
    for other in others:
        assert abs((once * other).mean()) < 0.005, "without correlation"
    assert len(once.unique()) == once.numel()
    Standard(model)(x, y)
    assert torch.equal(seen[-1], x)


def test_training_with_noise_resumes_to_the_same_weights(tmp_path: Path) -> None:
    def train(run: Path, **more: Any) -> dict[str, Tensor]:
        made = small.trainer(run, objective=Standard(small.network(), Linf("8/255"), sigma=0.25), **more)
        made.fit()
        return small.weights(made)

    whole = train(tmp_path / "whole")
    train(tmp_path / "parts", max_steps=5)
    assert small.same(train(tmp_path / "parts", resume=True), whole)
    quiet = small.trainer(tmp_path / "quiet", objective=Standard(small.network(), Linf("8/255")))
    quiet.fit()
    assert not small.same(small.weights(quiet), whole)


def test_every_sigma_keeps_the_contract() -> None:
    check_objective(lambda model, threat: Standard(model, threat, sigma=0.25))


@shared.for_refusals(shared.negative("sigma"))
def test_noise_of_negative_size_is_refused(options: dict[str, Any], message: str) -> None:
    shared.assert_refused(Standard, options, message)


def test_loss_is_cross_entropy_at_the_attacked_points() -> None:
    model, x = TinyNet(), images(6)
    y = said(model, x)
    index = torch.arange(6)
    points = perturb(model, PGD(steps=3), Linf(0.1), x, y, index=index, seed=5, step=7)
    expected = cross_entropy(model(points), y).mean()
    found = Adversarial(model, Linf(0.1), steps=3, seed=5)(x, y, index, 7)
    torch.testing.assert_close(found.loss, expected)
    torch.testing.assert_close(found.logits, model(points).detach())


def test_gradient_is_that_of_the_loss_at_fixed_points() -> None:
    model, x = TinyNet(), images(6)
    y = said(model, x)
    index = torch.arange(6)
    Adversarial(model, L2(0.1), steps=3)(x, y, index, 0).loss.backward()
    points = perturb(model, PGD(steps=3), L2(0.1), x, y, index=index, seed=0, step=0)
    expected = torch.autograd.grad(cross_entropy(model(points), y).mean(), list(model.parameters()))
    for parameter, slope in zip(model.parameters(), expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, slope)


@pytest.mark.parametrize("steps", [1, 4])
def test_passes_are_the_arithmetic_of_the_method(steps: int) -> None:
    model, x = Passes(), images(3)
    Adversarial(model, Linf(0.1), steps=steps)(x, said(model.model, x))
    assert model.modes == [False] * steps + [True]


def test_rs_fgsm_is_one_step_of_five_quarters_from_a_random_point() -> None:
    model, x = TinyNet(), images(6)
    y, index = said(model, x), torch.arange(6)
    objective = RSFGSM(model, Linf("0.2"), seed=4)
    found = []
    for eps in ("0.1", "0.2"):
        objective.threat = Linf(eps)
        keys = randomness.key(4, index, "pgd start", 3)
        start = x + float(eps) * (2 * randomness.uniform(keys, SHAPE, torch.float64) - 1)
        leaf = start.clone().requires_grad_()
        (slope,) = torch.autograd.grad(cross_entropy(model(leaf), y).sum(), leaf)
        moved = (start - x + 1.25 * float(eps) * slope.sign()).clamp(-float(eps), float(eps))
        output = objective(x, y, index, 3)
        torch.testing.assert_close(output.loss, cross_entropy(model(x + moved), y).mean())
        output.loss.backward()
        leaf = (x + moved).requires_grad_()
        (further,) = torch.autograd.grad(cross_entropy(model(leaf), y).sum(), leaf)
        expected = torch.nn.functional.cosine_similarity(slope.flatten(1), further.flatten(1)).mean()
        torch.testing.assert_close(output.metrics["alignment"], expected)
        found.append(expected)
    assert found[1] < found[0] < 1
    assert OBJECTIVES["rs-fgsm"].build is RSFGSM


@pytest.mark.parametrize("options", [{"steps": 2}, {"steps": 1, "loss": "margin"}], ids=str)
def test_only_one_step_on_the_cross_entropy_has_gradients_to_align(options: dict[str, Any]) -> None:
    model, x = TinyNet(), images(6)
    assert not Adversarial(model, Linf(0.1), **options)(x, said(model, x)).metrics


def test_the_alarm_costs_no_pass() -> None:
    assert shared.passes_of(RSFGSM) == (2, 2)


def test_a_replaced_threat_is_used() -> None:
    model, x = TinyNet(), images(10)
    y = said(model, x)
    objective = Adversarial(model, Linf(0.2), steps=5)
    strong = objective(x, y, step=0).loss
    objective.threat = Linf("1/1000000")
    weak = objective(x, y, step=0).loss
    torch.testing.assert_close(weak, Standard(model)(x, y).loss, rtol=1e-3, atol=1e-6)
    assert strong > weak


def test_calls_without_a_step_draw_new_numbers() -> None:
    model, x = TinyNet(), images(4)
    y = said(model, x)
    objective = Adversarial(model, Linf(0.1), steps=1, step_size="1/10000")
    assert objective(x, y).loss != objective(x, y).loss
    assert objective.calls == 2


def test_bad_values_are_refused_when_the_objective_is_made() -> None:
    with pytest.raises(UserError, match="Adversarial needs a threat"):
        Adversarial(TinyNet(), None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"objective\.steps: got 0, expected at least 1"):
        Adversarial(TinyNet(), Linf(0.1), steps=0)
    with pytest.raises(UserError, match="unknown loss 'hinge'"):
        Adversarial(TinyNet(), Linf(0.1), loss="hinge")


def test_standard_loss_is_the_mean_negative_log_probability() -> None:
    model, x = Linear(classes=3), images(5)
    y = said(model, x)
    p = model(x).softmax(dim=1)
    expected = -torch.stack([p[i, y[i]].log() for i in range(5)]).mean()
    found = Standard(model)(x, y)
    torch.testing.assert_close(found.loss, expected)
    torch.testing.assert_close(found.logits, model(x).detach())
