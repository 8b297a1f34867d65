"""Evaluation on a device without float64 that does not mix with the CPU: the same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import soar
from soar.bounds import crown_margins
from soar.errors import UserError
from soar.evaluation.checks.climb import attack_tasks
from soar.evaluation.checks.comparisons import softening
from soar.evaluation.checks.gradients import gradient_numbers
from soar.evaluation.checks.indicators import roughness
from soar.evaluation.checks.taylor import taylor_numbers
from soar.evaluation.features import find_features
from soar.evaluation.inspection import inspect
from soar.evaluation.target import Target
from soar.model_state import with_float64
from soar.threat import L2, Linf
from tests.attacks.problems import images
from tests.attacks.test_devices import network
from tests.pretending import DEVICE, pretended

THREAT = Linf("0.02")


def problem(count: int = 6) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Images that are all correctly classified."""
    model, x = network(), images(count).float()
    with torch.no_grad():
        return model, (x, model(x).argmax(dim=1))


def on_both(ask: Callable[[nn.Module, tuple[Tensor, Tensor]], Any]) -> tuple[Any, Any]:
    """What is answered for a model on the CPU, and for one on the device."""
    expected = ask(*problem())
    with pretended():
        model, data = problem()
        return expected, ask(model.to(DEVICE), data)


def test_accuracies_are_those_of_the_cpu() -> None:
    def ask(model: nn.Module, data: tuple[Tensor, Tensor]) -> dict[str, float]:
        found = soar.evaluate(model, data, THREAT, attacks=["fgsm", "pgd:steps=2"])
        return {name: found.accuracy(name) for name in ("clean", "FGSM", "worst case")}

    expected, found = on_both(ask)
    assert 0 < expected["worst case"] < 1
    assert found == expected


@pytest.mark.parametrize("method", ["crown", "crown:refine=true,steps=1", "ibp", "ibp:precision=float64"])
def test_what_is_certified_is_what_the_cpu_certifies(method: str) -> None:
    def ask(model: nn.Module, data: tuple[Tensor, Tensor]) -> list[list[bool]]:
        found = soar.certify(model, data, [Linf("0.001"), Linf("0.01")], method=method)
        return [one.certified.tolist() for one in found]

    expected, found = on_both(ask)
    assert found == expected and any(map(any, expected))


def test_votes_are_those_of_the_cpu() -> None:
    def ask(model: nn.Module, data: tuple[Tensor, Tensor]) -> list[bool]:
        certified: Tensor = soar.certify(model, data, [L2("0.01")], method="smoothing:draws=64")[0].certified
        return certified.tolist()

    expected, found = on_both(ask)
    assert found == expected


def notes(target: Target) -> list[Any]:
    return [*inspect(target)]


def tasks(target: Target) -> list[Any]:
    """The attack on heads, on a copy on the CPU."""
    target = replace(target, model=with_float64(target.model))
    features = find_features(target.model, target.x[:2])
    assert features is not None
    found = attack_tasks(target, features)
    return [found.missed.tolist(), found.stuck.tolist(), found.separated, found.forward]


@pytest.mark.parametrize(
    "measure",
    [taylor_numbers, gradient_numbers, roughness, softening, notes, tasks],
    ids=lambda one: one.__name__,
)
def test_measurements_of_gradients_are_those_of_the_cpu(measure: Callable[[Target], Any]) -> None:
    expected, found = on_both(lambda model, data: measure(Target(model=model, data=data, threat=THREAT)))
    assert found == expected


def test_crown_says_where_to_compute() -> None:
    model, (x, y) = problem()
    expected = r"^images: got some on mps, which has no float64; move them and the model to the CPU$"
    with pretended(), pytest.raises(UserError, match=expected):
        crown_margins(model.to(DEVICE), x.to(DEVICE), y.to(DEVICE), THREAT)


@pytest.mark.slow
def test_a_diagnosis_is_that_of_the_cpu() -> None:
    expected, found = on_both(lambda model, data: str(soar.diagnose(model, data, THREAT)))
    assert found == expected
