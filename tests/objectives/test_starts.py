from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from soar.attacks import PGD, perturb
from soar.attacks.recall import Recall, recalled
from soar.errors import UserError
from soar.losses import cross_entropy
from soar.objectives import FOAR, NFGSM, SOAR, Objective, check_objective
from soar.objectives.one_step import Step
from soar.objectives.starts import Start
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import TinyNet, images, said

INDEX = torch.arange(6)


def test_zero_is_the_image_itself() -> None:
    model, x = TinyNet(), images(6)
    points, _ = Start("zero", 0.5).find(model, Linf(0.1), x, said(model, x), index=INDEX, seed=0, step=0)
    assert torch.equal(points, x)


@pytest.mark.parametrize("threat", [Linf(0.2), L2(0.5)], ids=str)
@pytest.mark.parametrize("kind", ["random", "pgd-1", "pgd-3"])
def test_starts_stay_within_their_share_and_use_it(kind: str, threat: Threat) -> None:
    model, x = TinyNet(), images(6)
    start = Start(kind, 0.5)
    points, _ = start.find(model, threat, x, said(model, x), index=INDEX, seed=0, step=0)
    assert threat.scaled("1/2").contains(points, x).all()
    assert (threat.norm(points - x) > 0.2 * threat.radius).all()


def test_one_step_is_algorithm_1() -> None:
    model, x = TinyNet(), images(6)
    y = said(model, x)
    half = Linf("0.05")
    expected = perturb(model, PGD(steps=1, step_size="0.05"), half, x, y, index=INDEX, seed=3, step=2)
    points, _ = Start("pgd-1", 0.5).find(model, Linf("0.1"), x, y, index=INDEX, seed=3, step=2)
    assert torch.equal(points, expected)


def test_nfgsm_is_the_training_point_of_a_smaller_threat() -> None:
    model, x = TinyNet(), images(6)
    y = said(model, x)
    small = NFGSM(model, Linf("0.05"), seed=3)
    recall = Recall()
    with recall.recording():
        small(x, y, INDEX, 2)
    with recall.replaying():
        expected = recalled(lambda: Step(x, x)).points
    points, _ = Start("nfgsm", 0.5).find(model, Linf("0.1"), x, y, index=INDEX, seed=3, step=2)
    assert torch.equal(points, expected) and not points.requires_grad
    assert not Linf("0.05").contains(points, x).any(), "it is not projected to the ball"


@pytest.mark.parametrize("kind", [SOAR, FOAR])
def test_a_regularizer_may_start_there(kind: type[Objective]) -> None:
    check_objective(lambda model, threat: kind(model, threat, init="nfgsm"))  # type: ignore[call-arg]


@pytest.mark.parametrize("threat", [Linf("0.1"), L2("0.5")], ids=str)
@pytest.mark.parametrize("init", ["pgd-1", "nfgsm"])
def test_where_one_step_leads_to_it_its_gradient_is_told(init: str, threat: Threat) -> None:
    model, x = TinyNet(), images(6)
    y = said(model, x)
    points, gradient = Start(init, 0.5).find(model, threat, x, y, index=INDEX, seed=3, step=2)
    assert gradient is not None
    # One cosine for each example, written out; SOAR's is of the part that has a penalty.
    there = points.clone().requires_grad_()
    (ending,) = torch.autograd.grad(cross_entropy(model(there), y).sum(), there)
    cosines = F.cosine_similarity(gradient.flatten(1), ending.flatten(1))
    options = {"init": init, "init_eps_fraction": 0.5, "seed": 3}
    foar = FOAR(model, threat, **options)(x, y, INDEX, 2)  # type: ignore[arg-type]
    soar = SOAR(model, threat, penalty_fraction=0.5, **options)(x, y, INDEX, 2)  # type: ignore[arg-type]
    torch.testing.assert_close(foar.metrics["alignment"], cosines.mean())
    torch.testing.assert_close(soar.metrics["alignment"], cosines[:3].mean())


@pytest.mark.parametrize("init", ["zero", "random", "pgd-2"])
def test_otherwise_there_is_no_such_gradient_and_no_alignment(init: str) -> None:
    model, x = TinyNet(), images(6)
    y = said(model, x)
    assert Start(init, 0.5).find(model, Linf("0.1"), x, y, index=INDEX, seed=3, step=2)[1] is None
    for kind in (SOAR, FOAR):
        assert "alignment" not in kind(model, Linf("0.1"), init=init)(x, y, INDEX, 2).metrics


@pytest.mark.parametrize(
    "kind, share, rest, remaining",
    [
        ("pgd-1", 0.5, None, 0.5),
        ("nfgsm", 0.7, None, 0.3),
        ("zero", 0.5, None, 1.0),
        ("random", 0.8, None, 0.2),
        ("pgd-2", 1.0, 0.3, 0.3),
    ],
)
def test_the_regularizer_gets_the_rest(kind: str, share: float, rest: float | None, remaining: float) -> None:
    assert Start(kind, share, rest).remaining == pytest.approx(remaining)


@pytest.mark.parametrize(
    "kind, share, rest, message",
    [
        ("pdg-1", 0.5, None, r"objective\.init: got 'pdg-1', expected zero, random, nfgsm or pgd-K"),
        ("pgd-0", 0.5, None, r"objective\.init: got 'pgd-0'"),
        ("zero", 0.0, None, r"objective\.init_eps_fraction: got 0\.0, expected above 0 and at most 1"),
        ("zero", 1.1, None, r"objective\.init_eps_fraction: got 1\.1"),
        ("zero", 0.5, -1.0, r"objective\.penalty_eps_fraction: got -1\.0, expected at least 0"),
    ],
)
def test_senseless_values_are_refused(kind: str, share: float, rest: float | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Start(kind, share, rest)
