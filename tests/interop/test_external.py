from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

import soar
from soar.attacks import run
from soar.errors import UserError
from soar.evaluation import Assessment
from soar.interop import ExternalAttack, from_torchattacks
from soar.interop.external import counting
from soar.interop.libraries import require_fit
from soar.threat import L1, L2, Linf
from tests.interop.libraries import Counted, examples, falls, generators, middle_radius, problem


class SignAttack:
    """FGSM with the calling convention of torchattacks: it holds its model and returns points."""

    def __init__(self, model: nn.Module, eps: float, *, stray: float = 1.0) -> None:
        self.model, self.eps, self.stray = model, eps, stray

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        assert not self.model.training
        images = images.clone().requires_grad_()
        loss = nn.functional.cross_entropy(self.model(images), labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, images)
        return (images + self.stray * self.eps * gradient.sign()).detach()


class RandomAttack(SignAttack):
    """A random point, from both of the generators that other libraries use."""

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        noise = torch.rand_like(images) + torch.from_numpy(numpy.random.rand(*images.shape)).to(images)
        return images + (noise - 1) * self.eps


def test_an_external_attack_breaks_what_can_be_broken() -> None:
    model, x, y = problem()
    eps = middle_radius(model, x, y)
    external = from_torchattacks(SignAttack(model, eps), label="sign")
    found = soar.evaluate(model, (x, y), Linf(eps), ["fgsm", external])
    near = falls(model, x, y, eps)
    assert torch.equal(found.attacks[1].robust, ~near)
    assert found.accuracy("sign") == found.accuracy("FGSM") == found.worst_case


def test_points_outside_the_ball_are_brought_back() -> None:
    model, x, y = problem()
    eps = middle_radius(model, x, y)
    external = from_torchattacks(SignAttack(model, eps, stray=50))
    found = run(model, external, Linf(eps), x, y)
    assert torch.equal(found.robust, ~falls(model, x, y, eps))
    assert Linf(eps).contains(found.adversarial, x).all()


def test_a_search_tells_what_it_took() -> None:
    model, x, y = problem(7)
    external = from_torchattacks(SignAttack(model, 0.1))
    state = external.start(examples(x, y), Linf(0.1))
    forward, backward = external.spent(state)
    assert forward.tolist() == backward.tolist() == [1] * 7


def test_an_assessment_holds_every_pass() -> None:
    model, x, y = problem(10)
    counted = Counted(model)
    external = from_torchattacks(SignAttack(counted, 0.1))
    found = soar.evaluate(model, (x, y), Linf(0.1), external, batch_size=4)
    [result] = found.attacks
    assert (counted.forwards, counted.backwards) == (10, 10)
    # One by the search, one by the engine, which looks for itself, and one where the copy was fooled.
    assert torch.equal(result.forward, 3 - result.robust.long()) and result.backward.tolist() == [1] * 10


def test_passes_that_do_not_divide_are_shared_and_none_is_lost() -> None:
    model, x, y = problem(4)

    class Uneven(SignAttack):
        def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
            self.model(images[:3]), self.model(images[:3])
            return images

    external = from_torchattacks(Uneven(model, 0.1))
    forward, backward = external.spent(external.start(examples(x, y), Linf(0.1)))
    assert forward.tolist() == [2, 2, 1, 1] and backward.sum() == 0


def test_random_numbers_are_repeated_and_those_of_others_left_alone() -> None:
    model, x, y = problem()
    before = generators()
    points = [_shown(RandomAttack(model, 0.01), x, y, seed) for seed in (1, 1, 2)]
    assert torch.equal(points[0], points[1]) and not torch.equal(points[0], points[2])
    after = generators()
    assert torch.equal(before[0], after[0]) and before[1] == after[1]


def test_the_model_is_left_as_it_was() -> None:
    model, x, y = problem()
    model.train()
    soar.evaluate(model, (x, y), Linf(0.1), from_torchattacks(SignAttack(model, 0.1)))
    assert model.training and all(parameter.requires_grad for parameter in model.parameters())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model._forward_hooks


def test_the_record_names_library_attack_and_numbers(tmp_path: Any) -> None:
    model, x, y = problem()
    found = soar.evaluate(model, (x, y), Linf(0.1), from_torchattacks(SignAttack(model, 0.1), label="sign"))
    found.save(tmp_path / "found.json")
    [result] = Assessment.load(tmp_path / "found.json").attacks
    assert result.label == "sign" and result.name == "ExternalAttack"
    assert result.parameters["search"] == "SignAttack(eps=0.1, stray=1.0)"
    assert result.parameters["library"].startswith("torchattacks")


def test_a_journal_knows_an_external_attack_again(tmp_path: Any) -> None:
    model, x, y = problem()
    results = []
    for _ in range(2):
        counted = Counted(model)
        external = from_torchattacks(SignAttack(counted, 0.1))
        found = soar.evaluate(
            model, (x, y), Linf(0.1), external, journal=tmp_path / "notes.jsonl", check=False, fast=False
        )
        results.append((found.worst_case, counted.forwards))
    assert results == [(results[0][0], len(x)), (results[0][0], 0)]


def test_mistakes_are_told_in_one_line() -> None:
    model, x, y = problem(3)

    class PGDL2(SignAttack):
        pass

    class Cropped(SignAttack):
        def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
            return images[:, :, 1:]

    def attack(external: ExternalAttack, **more: Any) -> None:
        run(model, external, Linf(0.1), x, y, **more)

    with pytest.raises(UserError, match=r"got eps 0\.2, expected that of the threat, 0\.1"):
        attack(from_torchattacks(SignAttack(model, 0.2)))
    with pytest.raises(UserError, match=r"PGDL2: got the norm l2, expected that of the threat, linf 0\.1"):
        attack(from_torchattacks(PGDL2(model, 0.1)))
    with pytest.raises(UserError, match=r"gave points of shape \(3, 1, 2, 4\) for images of shape"):
        attack(from_torchattacks(Cropped(model, 0.1)))
    with pytest.raises(UserError, match="got target classes"):
        attack(from_torchattacks(SignAttack(model, 0.1)), goal=1 - y)
    with pytest.raises(UserError, match="got a int without a model, expected an attack of torchattacks"):
        from_torchattacks(3)


def test_an_l2_attack_fits_an_l2_threat() -> None:
    model, x, y = problem(3)

    class PGDL2(SignAttack):
        pass

    found = run(model, from_torchattacks(PGDL2(model, 0.1)), L2(0.1), x, y)
    assert L2(0.1).contains(found.adversarial, x).all()


def _shown(attack: SignAttack, x: Tensor, y: Tensor, seed: int) -> Tensor:
    external = from_torchattacks(attack)
    return external.query(external.start(examples(x, y, seed), Linf(attack.eps)))


class Listed(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        return [x, x * 2]


def test_predictions_and_gradients_are_counted_by_sample() -> None:
    model = nn.Linear(2, 3)
    with counting(model) as passes, torch.no_grad():
        model(torch.ones(4, 2))
    assert (passes["forward"], passes["backward"]) == (4, 0)
    with counting(model) as passes:
        model(torch.ones(4, 2)).sum().backward()
        model(torch.ones(1, 2))
    assert (passes["forward"], passes["backward"]) == (5, 4)


def test_a_list_of_outputs_ends_with_the_logits() -> None:
    model = Listed()
    with counting(model) as passes:
        model(torch.ones(4, 2, requires_grad=True))[-1].sum().backward()
    assert (passes["forward"], passes["backward"]) == (4, 4)


def test_nothing_is_counted_afterwards() -> None:
    model = nn.Flatten()
    with counting(model) as passes:
        pass
    model(torch.ones(4, 2))
    assert not passes["forward"] and not model._forward_hooks


@pytest.mark.parametrize("norm", [1, 1.0, "L1", "l1"])
def test_l1_is_known_by_the_names_of_other_libraries(norm: object) -> None:
    require_fit("PGD", L1(12), norm=norm, eps=12)
    with pytest.raises(UserError, match=r"got the norm l1, expected .* linf 0\.1"):
        require_fit("PGD", Linf("0.1"), norm=norm)
