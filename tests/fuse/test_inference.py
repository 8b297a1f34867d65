from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from soar import models
from soar.fuse import fuse_batch_norm, inference_copy
from soar.prediction import logits_of
from tests.attacks.problems import OUTPUTS, Answering, images


def test_a_copy_is_fused_stored_anew_and_predicts_the_same() -> None:
    options = {"norm": "batch", "width": 8}
    model = models.build("resnet10", seed=0, image_shape=(3, 16, 16), options=options)
    x = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    before = copy.deepcopy(model.state_dict())
    quick = inference_copy(model, x)
    assert quick is not model and not any(isinstance(part, nn.BatchNorm2d) for part in quick.modules())
    filters = [part.weight for part in quick.modules() if isinstance(part, nn.Conv2d)]
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in filters)
    with torch.no_grad():
        torch.testing.assert_close(quick(x), model.eval()(x), rtol=1e-4, atol=1e-5)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]) and value.stride() == before[name].stride()


# Objects of any class cannot be traced, so their networks are not fused.
@pytest.mark.parametrize("kind", [kind for kind in OUTPUTS if kind != "object"])
def test_a_model_whose_output_holds_more_than_logits_is_copied_like_one_of_logits(kind: str) -> None:
    x = images(4).float()
    model, plain = Answering(kind), Answering()
    assert fuse_batch_norm(model, x) is not None
    quick = inference_copy(model, x)
    assert type(quick.get_submodule("net.1")) is nn.Identity
    with torch.no_grad():
        assert torch.equal(logits_of(quick, x), inference_copy(plain, x)(x))


@pytest.mark.parametrize("activation", ["silu", "gelu", "softplus"])
def test_smooth_activations_are_left_as_they_are(activation: str) -> None:
    options = {"norm": "batch", "width": 8, "activation": activation}
    model = models.build("resnet10", seed=0, image_shape=(3, 16, 16), options=options).double()
    x = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    model(x)  # running statistics that are not the initial ones
    quick = inference_copy(model, x)
    assert not any(isinstance(part, nn.BatchNorm2d) for part in quick.modules())
    x.requires_grad_()
    logits, ours = model.eval()(x), quick(x)
    torch.testing.assert_close(ours, logits)
    gradients = [torch.autograd.grad(one.square().sum(), x)[0] for one in (logits, ours)]
    torch.testing.assert_close(*gradients)


def test_a_model_without_norms_is_only_stored_anew() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 5))
    x = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    quick = inference_copy(model, x)
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
        assert inference_copy(model, x) is model


class Shared(nn.Module):
    """Its ReLU must not write where it reads: the sum reads there too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.relu = nn.Conv2d(1, 8, 3), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        features = self.layer(x)
        summed: Tensor = self.relu(features) + 2 * features
        return summed.flatten(1)


class Squared(nn.Module):
    """Its ReLU writes over a number that the square needs for its gradient, though no logit changes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.relu = nn.Conv2d(1, 8, 3), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        features = self.layer(x)
        squares = features.square().sum(dim=1, keepdim=True)
        summed: Tensor = self.relu(features) + squares
        return summed.flatten(1)


def test_rectifiers_write_in_place_where_the_input_is_not_read_again() -> None:
    plain = models.build("resnet10", seed=0, image_shape=(3, 16, 16), options={"width": 8})
    x = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    quick = inference_copy(plain, x)
    rectifiers = [part for part in quick.modules() if isinstance(part, nn.ReLU)]
    assert len(rectifiers) == 5 and all(part.inplace for part in rectifiers)
    assert not any(part.inplace for part in plain.modules() if isinstance(part, nn.ReLU))
    x.requires_grad_()
    gradients = [torch.autograd.grad(one(x).square().sum(), x)[0] for one in (plain.eval(), quick)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)


def test_rectifiers_stay_where_the_input_is_read_again() -> None:
    x = torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    for model in (Shared(), Squared()):
        quick = inference_copy(model, x)
        assert quick is not model
        assert not any(part.inplace for part in quick.modules() if isinstance(part, nn.ReLU))
        torch.testing.assert_close(quick(x), model(x))
