"""Whole evaluations and diagnoses of models that other people write: in place, mixed precision, compiled."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

import soar
from soar.prediction import predict
from tests.attacks.problems import OTHER_KINDS, OUTPUTS, Answering, Normalized, Plain, images, scripted
from tests.attacks.test_contract import SMALL

# PyTorch warns of this where a compiled model is copied or called; as an error it would hide what follows.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)

THREAT = soar.Linf("1/10")
ATTACKS = [
    f"{name}:{','.join(f'{option}={value}' for option, value in options.items())}"
    for name, options in SMALL.items()
]


def test_a_model_that_works_in_place_gets_the_results_of_one_that_does_not() -> None:
    x, found, told = images(4).float(), [], []
    given, y = x.clone(), predict(Normalized(), x).argmax(dim=1)
    for in_place in (False, True):
        model = Normalized(in_place=in_place)
        found.append(soar.evaluate(model, (x, y), THREAT, [*ATTACKS, "rand:steps=3,samples=2"], batch_size=3))
        told.append(soar.diagnose(model, (x, y), THREAT, batch_size=3))
    assert torch.equal(x, given), "the caller's images are left as they were"
    for one, other in zip(found[0].attacks, found[1].attacks, strict=True):
        assert torch.equal(one.robust, other.robust) and torch.equal(one.forward, other.forward), one.label
    assert found[0].notes == found[1].notes == () and not found[0].survivors("worst case").all()
    assert told[0].checks == told[1].checks


@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_model_whose_output_holds_more_than_logits_gets_the_results_of_one_of_logits(kind: str) -> None:
    x, attacks = images(6).float(), [*ATTACKS, "rand:steps=3,samples=2"]
    y = predict(Answering(), x).argmax(dim=1)
    models = Answering(), Answering(kind)
    one, other = (soar.evaluate(model, (x, y), THREAT, attacks, batch_size=3) for model in models)
    for mine, its in zip(one.attacks, other.attacks, strict=True):
        assert torch.equal(mine.robust, its.robust) and torch.equal(mine.forward, its.forward), mine.label
    assert one.notes == other.notes == () and not one.survivors("worst case").all()
    for method, threat in (
        ("crown", soar.Linf(0.02)),
        ("ibp", soar.Linf(0.001)),
        ("smoothing", soar.L2(0.1)),
    ):
        sure = [soar.certify(model, (x, y), threat, method) for model in models]
        assert torch.equal(sure[0].certified, sure[1].certified)
    first, second = (soar.attack(model, x, y, THREAT) for model in models)
    assert torch.equal(first.adversarial, second.adversarial)


@pytest.mark.parametrize("kind", ["ModelOutput", "tuple"])
def test_a_model_whose_output_holds_more_than_logits_is_diagnosed_like_one_of_logits(kind: str) -> None:
    x = images(4).float()
    y = predict(Answering(), x).argmax(dim=1)
    one, other = (soar.diagnose(Answering(each), (x, y), THREAT, batch_size=3) for each in ("", kind))
    assert one.checks == other.checks and all(check.was_run for check in one.checks)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_models_of_any_precision_and_compiled_ones_are_evaluated(kind: str, fast: bool) -> None:
    model, x = OTHER_KINDS[kind](), images(6).float()
    y = predict(model, x).argmax(dim=1)
    found = soar.evaluate(model, (x, y), THREAT, ATTACKS, fast=fast, batch_size=4)
    assert found.accuracy("clean") == 1 and found.worst_case < 1
    assert found.diagnosis is not None and "Could not be checked" not in found.diagnosis.summary


@pytest.mark.parametrize("kind", ["bfloat16 inside", "float64 head", "scripted"])
def test_models_of_any_precision_and_compiled_ones_are_diagnosed(kind: str) -> None:
    model, x = OTHER_KINDS[kind](), images(3).float()
    y = predict(model, x).argmax(dim=1)
    found = soar.diagnose(model, (x, y), THREAT)
    assert all(one.was_run for one in found.checks)


def test_a_scripted_part_is_evaluated() -> None:
    x = images(4).float()
    partly = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), scripted()).eval()
    y = predict(partly, x).argmax(dim=1)
    assert soar.evaluate(partly, (x, y), THREAT, "pgd:steps=2").accuracy("clean") == 1


def run(name: str, model: nn.Module, x: Tensor, y: Tensor) -> object:
    """The numbers that a function of a model finds."""
    if name == "attack":
        return soar.attack(model, x, y, THREAT).adversarial.tolist()
    if name == "evaluate":
        return soar.evaluate(model, (x, y), THREAT, "fast").worst_case
    if name == "diagnose":
        return [one.sentence for one in soar.diagnose(model, (x, y), THREAT).checks]
    return soar.certify(model, (x, y), THREAT, "ibp").certified.tolist()


@pytest.mark.parametrize("name", ["attack", "evaluate", "diagnose", "certify"])
def test_what_torch_compiles_is_run_as_it_was_written_and_told_of_once(name: str) -> None:
    torch._dynamo.reset()
    counter, plain, x = CompileCounter(), Plain(), images(5).float()
    whole: Any = torch.compile(plain, backend=counter)
    y = predict(plain, x).argmax(dim=1)
    with pytest.warns(UserWarning, match=r"^model: is compiled, but .*, because batches shrink") as told:
        found = run(name, whole, x, y)
    assert len(told) == 1 and told[0].filename == __file__
    assert counter.frame_count == 0, "nothing was compiled"
    assert found == run(name, plain, x, y)
    assert torch.equal(whole(x), plain(x)) and counter.frame_count == 1, "it stays compiled elsewhere"


class Wide(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.flatten(1), torch.zeros(len(x), 988)], dim=1)


def test_a_model_with_too_many_outputs_is_told_of_once_and_noted() -> None:
    x, y = images(20).float(), torch.zeros(20, dtype=torch.int64)
    with pytest.warns(UserWarning, match=r"^model: got 1000 outputs for labels up to 0, ") as told:
        found = soar.evaluate(Wide(), (x, y), THREAT, "pgd:steps=1", check=False)
    assert len(told) == 1 and found.notes == (soar.evaluation.Note("outputs", str(told[0].message)),)
    assert told[0].filename == __file__, "it points to the caller's line"
    with pytest.warns(UserWarning, match=r"^model: got 1000 outputs for labels up to 0, ") as told:
        soar.diagnose(Wide(), (x, y), THREAT)
    assert len(told) == 1
    names = tuple(f"class {k}" for k in range(12))
    with pytest.warns(UserWarning, match=r"^model: got 1000 outputs for 12 classes, "):
        soar.evaluate(Wide(), (x[:2], y[:2]), THREAT, "fgsm", class_names=names, check=False)
