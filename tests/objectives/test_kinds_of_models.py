"""Every objective on models that other people write: in place, in mixed precision."""

from __future__ import annotations

import pytest
import torch

from soar.objectives import OBJECTIVES
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import Normalized, images

for_objectives = pytest.mark.parametrize("name", [one.name for one in OBJECTIVES])


@pytest.mark.parametrize("threat", [Linf("1/10"), L2("1/2")], ids=str)
@for_objectives
def test_a_model_that_works_in_place_is_trained_like_one_that_does_not(name: str, threat: Threat) -> None:
    x, y, index = images(6).float(), torch.tensor([0, 1, 2, 3, 4, 0]), torch.arange(6)
    given, losses, slopes = x.clone(), [], []
    for in_place in (False, True):
        model = Normalized(in_place=in_place)
        objective = OBJECTIVES[name].build(model, threat)
        for _ in range(2):
            loss = objective(x, y, index).loss
            loss.backward()
        losses.append(loss.detach())
        slopes.append([parameter.grad for parameter in model.parameters()])
    assert torch.equal(x, given), "the caller's images are left as they were"
    assert torch.equal(*losses)
    assert all(one is not None and torch.equal(one, other) for one, other in zip(*slopes, strict=True))


@pytest.mark.parametrize("options", [{"product": "exact"}, {"product": "difference"}, {"start": "zero"}])
def test_every_product_of_soar_takes_a_model_that_works_in_place(options: dict[str, str]) -> None:
    x, y = images(6).float(), torch.tensor([0, 1, 2, 3, 4, 0])
    given = x.clone()
    found = [
        OBJECTIVES["soar"].build(Normalized(in_place=in_place), Linf("1/10"), **options)(x, y).loss
        for in_place in (False, True)
    ]
    assert torch.equal(*found) and torch.equal(x, given)
