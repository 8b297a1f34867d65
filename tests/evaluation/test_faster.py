from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from soar import models
from soar.evaluation.faster import faster


def test_a_copy_is_folded_stored_anew_and_says_the_same() -> None:
    options = {"norm": "batch", "width": 8}
    model = models.build("resnet10", seed=0, image_shape=(3, 16, 16), options=options)
    x = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    before = copy.deepcopy(model.state_dict())
    quick = faster(model, x)
    assert quick is not model and not any(isinstance(part, nn.BatchNorm2d) for part in quick.modules())
    filters = [part.weight for part in quick.modules() if isinstance(part, nn.Conv2d)]
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in filters)
    with torch.no_grad():
        torch.testing.assert_close(quick(x), model.eval()(x), rtol=1e-4, atol=1e-5)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]) and value.stride() == before[name].stride()


def test_a_model_without_norms_is_only_stored_anew() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 5))
    x = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    quick = faster(model, x)
    assert quick is not model
    torch.testing.assert_close(quick(x), model(x))


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) + torch.randn(len(x), 1)


class Unique(nn.Module):
    def __deepcopy__(self, memo: object) -> nn.Module:
        raise RuntimeError("there is only one")

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)


def test_models_that_would_not_be_the_same_stay_as_they_are() -> None:
    x = torch.rand(2, 1, 2, 2)
    for model in (Random(), Unique()):
        assert faster(model, x) is model
