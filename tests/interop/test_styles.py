from __future__ import annotations

import numpy
import pytest
import torch
from torch import nn

from soar.attacks import PGD, run
from soar.errors import UserError
from soar.interop import CallableAttack, FoolboxStyleAttack
from soar.threat import Linf
from tests.attacks.problems import TinyNet, images, said
from tests.interop.libraries import falls, library, middle_radius, problem


def test_called_as_torchattacks_it_gives_the_points_of_the_engine() -> None:
    model = TinyNet()
    x = images(9)
    y = said(model, x)
    attack = CallableAttack(model, PGD(steps=5, restarts=2), Linf(0.05), seed=3, batch_size=4)
    found = run(model, PGD(steps=5, restarts=2), Linf(0.05), x, y, seed=3)
    assert torch.equal(attack(x, y), found.adversarial)
    assert Linf(0.05).contains(attack(x, y), x).all()


def test_points_fool_the_model_exactly_where_it_can_be_fooled() -> None:
    model, x, y = problem()
    eps = middle_radius(model, x, y)
    points = CallableAttack(model, "fgsm", Linf(eps))(x, y)
    assert torch.equal(said(model, points) != y, falls(model, x, y, eps))


def test_called_as_art_it_takes_and_gives_arrays() -> None:
    model, x, y = problem()
    attack = CallableAttack(model, "fgsm", Linf(0.1))
    points = attack.generate(x.numpy(), y.numpy())
    assert points.dtype == numpy.float32 and numpy.array_equal(points, attack(x, y).numpy())
    one_hot = nn.functional.one_hot(y).numpy()
    assert numpy.array_equal(attack.generate(x=x.numpy(), y=one_hot), points)
    # Here every image is correctly classified, so that the model's own predictions are the labels.
    assert numpy.array_equal(attack.generate(x.numpy()), points)


def test_called_as_foolbox_it_takes_several_radii() -> None:
    model, x, y = problem()
    eps = middle_radius(model, x, y)
    raw, clipped, success = FoolboxStyleAttack("fgsm")(model, x, y, epsilons=[eps / 100, eps])
    assert success.shape == (2, len(x)) and len(raw) == len(clipped) == 2
    assert torch.equal(success[1], falls(model, x, y, eps))
    assert Linf(eps).contains(clipped[1], x).all()
    _, points, alone = FoolboxStyleAttack("fgsm", "linf")(model, x, y, epsilons=eps)
    assert torch.equal(points, clipped[1]) and torch.equal(alone, success[1])


def test_images_that_are_wrong_already_count_as_success() -> None:
    model, x, y = problem(4)
    _, points, success = FoolboxStyleAttack("fgsm")(model, x, 1 - y, epsilons=0.001)
    assert success.all() and torch.equal(points, x)


def test_foolbox_models_and_criteria_are_taken() -> None:
    foolbox = library("foolbox")
    model, x, y = problem()
    eps = middle_radius(model, x, y)
    # Preprocessing that the wrapper does in front of the network, and that the wrapped network undoes.
    doubled = nn.Sequential(Halved(), model).eval()
    wrapped = foolbox.PyTorchModel(doubled, bounds=(0, 1), device="cpu", preprocessing={"std": 0.5})
    _, _, success = FoolboxStyleAttack("fgsm")(
        wrapped, x, foolbox.criteria.Misclassification(y), epsilons=eps
    )
    assert torch.equal(success, falls(model, x, y, eps))
    with pytest.raises(UserError, match=r"model: got bounds \(0, 255\), expected \(0, 1\)"):
        FoolboxStyleAttack("fgsm")(
            foolbox.PyTorchModel(doubled, bounds=(0, 255), device="cpu"), x, y, epsilons=0.1
        )
    with pytest.raises(UserError, match="criterion: got a TargetedMisclassification, expected labels or"):
        FoolboxStyleAttack("fgsm")(model, x, foolbox.criteria.TargetedMisclassification(y), epsilons=0.1)


def test_mistakes_are_told_in_one_line() -> None:
    with pytest.raises(
        UserError, match="attack: got 'quick', a suite of FGSM, PGD-20, PGD-20 margin; expected"
    ):
        CallableAttack(nn.Flatten(), "quick", Linf(0.1))
    with pytest.raises(UserError, match="unknown norm 'l1'"):
        FoolboxStyleAttack("fgsm", "l1")


class Halved(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 2
