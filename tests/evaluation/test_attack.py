from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import soar
from soar.attacks import PGD, Square
from soar.attacks.attack import Planned
from soar.errors import UserError
from soar.evaluation import Curve, wilson
from soar.evaluation.attack import AdversarialExamples, attack
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import Linear, Passes, TinyNet, images, said


def problem(count: int = 40) -> tuple[TinyNet, Tensor, Tensor]:
    """A network, images and labels of which every ninth is wrong."""
    model, x = TinyNet(), images(count)
    labels = said(model, x)
    labels[::9] = (labels[::9] + 1) % 5
    return model, x, labels


def assert_consistent(model: nn.Module, x: Tensor, y: Tensor, found: AdversarialExamples) -> None:
    """Hold every field to what the model predicts."""
    predicted = said(model, found.adversarial)
    assert torch.equal(found.predictions, predicted)
    assert torch.equal(found.success, predicted != y)
    assert torch.equal(found.correct, said(model, x) == y)
    assert found.robust_accuracy == (predicted == y).double().mean()
    assert bool(found.threat.contains(found.adversarial, x).all())
    assert torch.equal(found.adversarial[~found.correct], x[~found.correct])


@pytest.mark.parametrize(("kind", "dual"), [(Linf, 1), (L2, 2)])
def test_linear_models_get_their_exact_worst_case(kind: type[Threat], dual: int) -> None:
    model, x = Linear(classes=2), images(60)
    labels = said(model, x)
    distances = model.distances(x, labels, dual=dual)
    eps = distances.sort().values[20:22].mean().item()
    found = attack(model, x, labels, kind(eps), "pgd:steps=20")
    assert torch.equal(found.success, distances < eps)
    assert found.robust_accuracy == (distances > eps).double().mean().item()
    assert_consistent(model, x, labels, found)
    # The images lie well inside of the pixel range, so the farthest point is known where none succeeds.
    uphill = model.weight[1 - labels] - model.weight[labels]
    worst = x + eps * kind(eps).ascent(uphill)
    one_step = attack(model, x, labels, kind(eps), "fgsm").adversarial
    left = ~found.success
    torch.testing.assert_close(one_step[left], worst[left].detach(), atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    "spec", ["fgsm", "pgd:steps=5,restarts=2", "fab:steps=5,targets=2", "square:queries=30"]
)
@pytest.mark.parametrize("threat", [Linf(0.05), L2(0.2)], ids=str)
def test_every_field_agrees_with_the_model(spec: str, threat: Threat) -> None:
    model, x, y = problem()
    found = attack(model, x, y, threat, spec)
    assert_consistent(model, x, y, found)
    assert 0 < found.success[found.correct].sum() < found.correct.sum()
    assert (found.forward[~found.correct] == 1).all() and not found.backward[~found.correct].any()


def test_results_do_not_depend_on_the_batch_size() -> None:
    model, x, y = problem()
    first, *others = (attack(model, x, y, Linf(0.05), batch_size=size) for size in (64, 7, 1))
    for other in others:
        assert torch.equal(first.success, other.success)
        torch.testing.assert_close(first.adversarial, other.adversarial, rtol=0, atol=1e-9)


def test_several_radii_are_the_same_as_separate_calls() -> None:
    model, x, y = problem()
    threats = [Linf(0.08), Linf(0.02), L2(0.2)]
    together = attack(model, x, y, threats, "pgd:steps=4", seed=5)
    assert [one.threat for one in together] == threats
    for threat, found in zip(threats, together, strict=True):
        alone = attack(model, x, y, threat, "pgd:steps=4", seed=5)
        assert torch.equal(alone.adversarial, found.adversarial)
        assert torch.equal(alone.forward, found.forward) and torch.equal(alone.backward, found.backward)


def test_text_object_and_planned_attack_are_the_same() -> None:
    model, x, y = problem()
    wanted: tuple[Any, ...] = ("pgd:steps=3", PGD(steps=3), Planned(PGD(steps=3)), [PGD(steps=3)])
    first, *others = (attack(model, x, y, Linf(0.05), one).adversarial for one in wanted)
    assert all(torch.equal(first, other) for other in others)


def test_the_engine_and_evaluation_find_the_same() -> None:
    model, x, y = problem()
    found = attack(model, x, y, Linf(0.05), "quick", seed=2)
    assessed = soar.evaluate(model, (x, y), Linf(0.05), "quick", seed=2, fast=False)
    assert found.robust_accuracy == assessed.worst_case
    assert torch.equal(~found.success, assessed.survivors("worst case"))


def test_later_attacks_get_what_the_first_one_left() -> None:
    model, x, y = problem()
    weak, both = (
        attack(model, x, y, Linf(0.05), one) for one in ("fgsm", ["fgsm", "pgd:steps=20,loss=margin"])
    )
    assert both.success.sum() > weak.success.sum()
    assert torch.equal(both.adversarial[weak.success], weak.adversarial[weak.success])
    assert torch.equal(both.forward[weak.success], weak.forward[weak.success])
    assert (both.forward[~weak.success] > weak.forward[~weak.success]).all()
    assert_consistent(model, x, y, both)


def test_passes_count_what_went_through_the_model() -> None:
    model = Passes()
    x = images(6)
    found = attack(model, x, said(model.model, x), Linf("1e-6"), "pgd:steps=3")
    assert found.forward.tolist() == [5] * 6 and found.backward.tolist() == [3] * 6
    assert len(model.modes) == 5 and not any(model.modes) and model.training


def test_a_randomized_model_is_asked_as_often_as_its_suite_says() -> None:
    model, x, y = problem(8)
    found = attack(model, x, y, Linf("1e-6"), "rand:steps=2,samples=3")
    assert (found.forward[found.correct] % 3 == 1).all() and (found.forward[found.correct] > 1).all()


class InPlace(nn.Module):
    """Normalizes its input in place, as some models do."""

    def __init__(self) -> None:
        super().__init__()
        self.model = TinyNet()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x.sub_(0.1).div_(0.9))
        return logits


@pytest.mark.parametrize("spec", ["pgd:steps=5", "square:queries=20"])
def test_models_that_work_in_place_are_attacked_like_others(spec: str) -> None:
    x = images(20)
    y = said(InPlace(), x.clone())
    before = x.clone()
    found = attack(InPlace(), x, y, Linf(0.05), spec)
    assert torch.equal(x, before)
    predicted = said(InPlace(), found.adversarial.clone())
    assert torch.equal(found.success, predicted != y) and found.success.any()


def test_bytes_and_arrays_are_taken_as_evaluation_takes_them() -> None:
    model, x, _ = problem()
    pixels = (x * 255).round().to(torch.uint8)
    y = said(model, pixels.double() / 255)
    found = attack(model, pixels, y, Linf(0.05))
    assert found.adversarial.dtype == torch.float64
    assert_consistent(model, pixels.double() / 255, y, found)
    arrays = attack(model, pixels.numpy(), y.numpy(), Linf(0.05))
    mixed = attack(model, pixels.numpy(), y, Linf(0.05))
    assert torch.equal(arrays.adversarial, found.adversarial)
    assert torch.equal(mixed.adversarial, found.adversarial)


def test_the_result_is_in_the_precision_of_the_model() -> None:
    x, y = images(4).float(), torch.zeros(4, dtype=torch.int64)
    assert attack(Linear(), x, y, Linf(0.1)).adversarial.dtype == torch.float64
    assert attack(Linear().float(), x.double(), y, Linf(0.1)).adversarial.dtype == torch.float32


def test_the_images_of_the_caller_are_not_the_ones_returned() -> None:
    model, x, _ = problem(3)
    wrong = (said(model, x) + 1) % 5
    found = attack(model, x, wrong, Linf(0.05))
    assert torch.equal(found.adversarial, x) and found.success.all() and not found.correct.any()
    assert found.robust_accuracy == 0
    assert found.adversarial.data_ptr() != x.data_ptr()


def test_it_is_short_to_print() -> None:
    model, x, y = problem()
    found = attack(model, x, y, Linf("8/255"))
    assert len(found) == 40
    wrong = int(found.success.sum())
    assert repr(found) == f"<AdversarialExamples: linf 8/255, {wrong} of 40 misclassified>"


def test_it_is_read_like_an_assessment() -> None:
    model, x, y = problem()
    found = attack(model, x, y, Linf("8/255"), ["fgsm", "pgd:steps=2"])
    assert found.attacks == ("FGSM", "PGD-2")
    assert found.accuracy("clean") == found.correct.double().mean()
    assert found.accuracy("worst case") == found.robust_accuracy
    assert found.interval("clean") == wilson(int(found.correct.sum()), 40)
    assert found.passes("clean") == (1.0, 0.0)
    spent = [found.forward.double().mean().item(), found.backward.double().mean().item()]
    assert found.passes("worst case") == pytest.approx(spent)
    with pytest.raises(UserError, match="unknown name 'PGD'"):
        found.accuracy("PGD")


def test_several_threats_give_a_curve() -> None:
    model, x, y = problem()
    found = attack(model, x, y, [Linf("8/255"), Linf("4/255")])
    assert type(found) is Curve and [one.threat for one in found] == [Linf("8/255"), Linf("4/255")]


X, Y = images(3), torch.zeros(3, dtype=torch.int64)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": torch.sin}, "model: got a builtin_function_or_method, expected a torch.nn.Module"),
        ({"x": [[0.5]]}, "x: got a list, expected a tensor or a NumPy array"),
        ({"y": [0, 1, 2]}, "y: got a list, expected a tensor or a NumPy array"),
        ({"x": X * 255}, "images: got pixels from .* expected \\[0, 1\\]"),
        ({"x": X[:2]}, "got 2 images and 3 labels"),
        ({"x": X[:0], "y": Y[:0]}, "data: got no images"),
        ({"y": Y.float()}, "labels: got torch.float32"),
        ({"y": np.array(["a", "b", "c"])}, "labels: got an array of <U1, expected numbers"),
        ({"y": Y + 2}, "labels: got 2 for image 0 .*, expected 0 to 1 for 2 classes"),
        ({"y": Y - 1}, "labels: got -1 for image 0 .*, expected 0 to 1 for 2"),
        ({"threat": 0.1}, 'threat: got 0.1, expected such as Linf\\("8/255"\\)'),
        ({"threat": "8/255"}, "threat: got '8/255', expected such as"),
        ({"threat": [Linf(0.1), 0.2]}, "threat: got 0.2, expected such as"),
        ({"threat": []}, "threat: got an empty list"),
        ({"attacks": "pdg"}, "unknown attack 'pdg'"),
        ({"attacks": "pgd:step=3"}, "unknown option of PGD 'step'"),
        ({"attacks": PGD}, "attack: got the class PGD"),
        ({"attacks": []}, "attacks: got none"),
        ({"seed": 0.5}, "seed: got 0.5"),
        ({"batch_size": 0}, "batch_size: got 0"),
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(5, 2))}, "model: fails on 3 images"),
    ],
)
def test_mistakes_are_told_in_one_line(changed: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"model": Linear(), "x": X, "y": Y, "threat": Linf(0.1)} | changed
    with pytest.raises(UserError, match=message) as caught:
        attack(**arguments)
    assert "\n" not in str(caught.value)


def test_logits_that_are_not_numbers_are_refused() -> None:
    model = Linear()
    model.bias.data[1] = torch.nan
    with pytest.raises(UserError, match="logits that are NaN or infinite for 3 of 3 images"):
        attack(model, X, Y, Linf(0.1), Square(queries=3))


def test_it_is_the_first_thing_to_be_found() -> None:
    assert soar.attack is attack and soar.AdversarialExamples is AdversarialExamples
