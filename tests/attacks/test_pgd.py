from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from soar.attacks import FGSM, PGD, perturb, run
from soar.attacks.attack import Answer, Examples
from soar.attacks.pgd import climb
from soar.errors import UserError
from soar.losses import cross_entropy
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import Linear, TinyNet, images, said

KINDS: list[tuple[type[Threat], int]] = [(Linf, 1), (L2, 2)]


@pytest.mark.parametrize("kind, dual", KINDS)
@pytest.mark.parametrize("attack", [FGSM(), PGD(steps=40), PGD(steps=30, loss="margin")])
def test_attacks_reach_the_closed_form_of_a_linear_model(kind: type[Threat], dual: int, attack: PGD) -> None:
    model, x = Linear(classes=2), images(40)
    labels = said(model, x)
    distances = model.distances(x, labels, dual)
    # Images near enough to the border that the pixel range does not matter.
    near = distances < 0.25
    assert near.sum() >= 5
    for i in near.nonzero()[:, 0].tolist():
        reach = distances[i].item()
        just_enough = run(model, attack, kind(reach * 1.02), x[i : i + 1], labels[i : i + 1])
        too_little = run(model, attack, kind(reach * 0.98), x[i : i + 1], labels[i : i + 1])
        assert not just_enough.robust.item()
        assert too_little.robust.item()


def test_fgsm_is_one_signed_step() -> None:
    model, x = TinyNet(), images(20)
    labels = said(model, x)
    x.requires_grad_()
    (g,) = torch.autograd.grad(cross_entropy(model(x), labels).sum(), x)
    expected = (x + 0.1 * g.sign()).clamp(0, 1).detach()
    points = perturb(model, FGSM(), Linf("0.1"), x.detach(), labels, index=torch.arange(20), seed=0, step=0)
    torch.testing.assert_close(points, expected)


def test_pgd_is_its_formula_written_out() -> None:
    model, x = TinyNet(), images(6)
    labels = said(model, x)
    attack = PGD(steps=4, step_size="0.03", random_start=False)
    points = perturb(model, attack, Linf("0.05"), x, labels, index=torch.arange(6), seed=0, step=0)
    expected = x.clone()
    for _ in range(4):
        expected.requires_grad_()
        (g,) = torch.autograd.grad(cross_entropy(model(expected), labels).sum(), expected)
        moved = expected.detach() + 0.03 * g.sign()
        expected = torch.minimum(torch.maximum(moved, x - 0.05), x + 0.05).clamp(0, 1)
    torch.testing.assert_close(points, expected)


def test_training_and_evaluation_climb_alike() -> None:
    model, x = TinyNet(), images(30)
    labels = said(model, x)
    threat = L2(0.02)
    inside = perturb(model, PGD(steps=7), threat, x, labels, index=torch.arange(30), seed=3, step=0)
    outside = run(model, PGD(steps=7), threat, x, labels, seed=3)
    last = outside.robust & (
        cross_entropy(model(inside), labels) >= cross_entropy(model(outside.adversarial), labels) - 1e-12
    )
    assert last.sum() > 10
    torch.testing.assert_close(inside[last], outside.adversarial[last])


def test_every_training_step_starts_elsewhere_and_repeats_exactly() -> None:
    model, x = TinyNet(), images(5)
    labels = said(model, x)

    def points(step: int, seed: int = 0) -> Tensor:
        index = torch.arange(5)
        return perturb(model, PGD(steps=1), Linf(0.1), x, labels, index=index, seed=seed, step=step)

    assert torch.equal(points(3), points(3))
    assert not torch.equal(points(3), points(4))
    assert not torch.equal(points(3), points(3, seed=1))


def test_restarts_start_at_different_points() -> None:
    model, x = TinyNet(), images(30)
    labels = said(model, x)
    # Steps too short to matter: whoever is fooled was fooled by where a restart began.
    attacks = [PGD(steps=1, step_size="1/100000", restarts=n) for n in (1, 5, 25)]
    robust = [run(model, attack, Linf(0.2), x, labels).robust for attack in attacks]
    counts = [int(r.sum()) for r in robust]
    assert counts[0] >= counts[1] >= counts[2] and counts[0] > counts[2]


def test_targets_try_the_likely_classes_in_turn() -> None:
    model, x = TinyNet(classes=5), images(30)
    labels = said(model, x)
    attack = PGD(steps=5, targets=9)
    assert attack.entries(classes=5) == 4 and attack.entries(classes=10) == 9
    found = run(model, attack, Linf(0.02), x, labels)
    assert (found.backward[found.robust] == 4 * 5).all()


@pytest.mark.parametrize(
    "schedule, lengths",
    [
        ("constant", [1.0, 1.0, 1.0, 1.0]),
        ("linear", [1.0, 0.75, 0.5, 0.25]),
        ("cosine", [1.0, 0.8535533906, 0.5, 0.1464466094]),
    ],
)
def test_step_schedules(schedule: str, lengths: list[float]) -> None:
    attack = PGD(steps=4, step_size=0.01, random_start=False, schedule=schedule)  # type: ignore[arg-type]
    x = torch.full((4, 1, 1, 1), 0.5, dtype=torch.float64)
    state = attack.start(Examples.of(x, torch.zeros(4, dtype=torch.int64)), Linf(0.4))
    answer = Answer(torch.zeros(4, 2), torch.zeros(4), torch.ones_like(x))
    moved = attack.update(replace(state, step=torch.arange(4)), answer, Linf(0.4)).points - x
    assert (100 * moved).flatten().tolist() == pytest.approx(lengths)


@pytest.mark.parametrize("steps, length", [(1, 1.25), (5, 0.5), (10, 0.25), (100, 0.25)])
def test_default_step_lengths_in_units_of_eps(steps: int, length: float) -> None:
    assert PGD(steps=steps).step_length(Fraction(1)) == length


def test_step_length_may_differ_between_examples() -> None:
    x = torch.full((2, 1, 1, 2), 0.5)
    points = climb(x, torch.ones_like(x), x, Linf(0.2), torch.tensor([0.1, 0.3]))
    torch.testing.assert_close(points[:, 0, 0, 0], torch.tensor([0.6, 0.7]))


def test_any_loss_can_be_climbed() -> None:
    def minus_true_logit(logits: Tensor, labels: Tensor) -> Tensor:
        return -logits.gather(1, labels[:, None])[:, 0]

    model, x = TinyNet(), images(20)
    attack = PGD(steps=10, loss=minus_true_logit)
    assert attack.label == "PGD-10 minus_true_logit"
    assert not run(model, attack, Linf(0.5), x, said(model, x)).robust.all()


@pytest.mark.parametrize(
    "bad, message",
    [
        ({"steps": 0}, "attack.steps: got 0, expected at least 1"),
        ({"restarts": 0}, "attack.restarts: got 0, expected at least 1"),
        ({"loss": "cee"}, r"unknown loss 'cee' \(attack.loss\); did you mean 'ce'"),
        ({"step_size": "-1"}, r"attack.step_size: got -1, expected a number above 0"),
        ({"schedule": "cosin"}, "did you mean 'cosine'"),
        ({"restarts": 3, "random_start": False}, "attack.restarts: got 3 without random_start"),
        ({"targets": 2, "loss": cross_entropy}, "cannot be targeted"),
    ],
)
def test_senseless_numbers_are_refused(bad: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        PGD(**bad)  # type: ignore[arg-type]
