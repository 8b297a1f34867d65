from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import soar
from soar.attacks import run
from soar.errors import UserError
from soar.interop import from_art
from soar.threat import L2, Linf
from tests.interop.libraries import examples, falls, library, middle_radius, problem

evasion = library("art.attacks.evasion")


def classifier(model: nn.Module, shape: tuple[int, ...], classes: int = 2) -> Any:
    made = library("art.estimators.classification").PyTorchClassifier
    return made(model, nn.CrossEntropyLoss(), shape, classes, clip_values=(0.0, 1.0), device_type="cpu")


def test_fgsm_of_art_breaks_what_can_be_broken() -> None:
    model, x, y = problem()
    eps = middle_radius(model, x, y)
    external = from_art(evasion.FastGradientMethod(classifier(model, (1, 3, 4)), eps=eps))
    found = soar.evaluate(model, (x, y), Linf(eps), [external])
    assert torch.equal(found.attacks[0].robust, ~falls(model, x, y, eps))
    assert found.names == ["clean", "ART FastGradientMethod", "worst case"]
    assert found.attacks[0].parameters["search"].startswith("FastGradientMethod(batch_size=32, eps=")


@pytest.mark.parametrize("wrapped", [False, True])
def test_passes_are_counted_also_where_art_goes_through_layers_one_by_one(wrapped: bool) -> None:
    layers = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    model = Outer(layers) if wrapped else layers
    x = torch.rand(5, 1, 3, 4, generator=torch.Generator().manual_seed(0))
    y = layers(x).argmax(dim=1)
    external = from_art(evasion.FastGradientMethod(classifier(model, (1, 3, 4), 3), eps=0.1))
    forward, backward = external.spent(external.start(examples(x, y), Linf(0.1)))
    assert forward.tolist() == backward.tolist() == [1] * 5


def test_mistakes_are_told_in_one_line() -> None:
    model, x, y = problem(3)
    attack = evasion.FastGradientMethod(classifier(model, (1, 3, 4)), eps=0.1)
    with pytest.raises(UserError, match=r"got the norm linf, expected that of the threat, l2 0\.1"):
        run(model, from_art(attack), L2(0.1), x, y)
    with pytest.raises(UserError, match=r"got eps 0\.1, expected that of the threat, 0\.2"):
        run(model, from_art(attack), Linf(0.2), x, y)
    with pytest.raises(UserError, match="got a Flatten, expected an attack of ART on a PyTorchClassifier"):
        from_art(nn.Flatten())


class Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.inner(x)
        return logits
