from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from soar import models
from soar.errors import UserError
from soar.evaluation.features import Features, find_features

SHAPE = (1, 8, 8)


def images(count: int = 3) -> Tensor:
    return torch.linspace(0, 1, count * 64).reshape(count, *SHAPE)


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return build()


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 8, 4, 4)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.block(self.patches(x).flatten(2).mT)
        logits: Tensor = self.head(tokens.mean(dim=1))
        return logits


class ByKeyword(nn.Module):
    """Defines its layers in another order than it calls them, and names their argument."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.body = nn.Linear(5, 3), nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(input=self.body(input=x.flatten(1)).relu())
        return logits


class Folded(nn.Module):
    """Its linear layer sees the patches of all images as one batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layer(x.reshape(-1, 16)).reshape(len(x), 4, 3).mean(dim=1)
        return logits


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 1), nn.ReLU(), nn.Conv2d(4, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )


CASES: dict[str, tuple[Callable[[], nn.Module], str, int]] = {
    "linear": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), "the input of '1'", 64),
    "convolutional": (convolutional, "the input of '2'", 256),
    "transformer": (Transformer, "the input of 'head'", 8),
    "by keyword": (ByKeyword, "the input of 'head'", 5),
}


@pytest.mark.parametrize("case", CASES)
def test_the_last_layer_that_is_called_takes_the_features(case: str) -> None:
    build, name, dimension = CASES[case]
    model = seeded(build).eval()
    found = find_features(model, images())
    assert found is not None and str(found) == name
    read = found(images())
    assert read.shape == (3, dimension)
    layer = found.module
    if isinstance(layer, nn.Linear):
        torch.testing.assert_close(layer(read), model(images()))


@pytest.mark.parametrize("name", [one.name for one in models.MODELS])
def test_our_own_networks_have_features(name: str) -> None:
    model = models.build(name, seed=0, num_classes=3, image_shape=(1, 28, 28), options={}).eval()
    found = find_features(model, torch.zeros(1, 1, 28, 28))
    assert found is not None and isinstance(found.module, nn.Linear) and found.module.out_features == 3


def test_gradients_flow_through_them_and_no_hook_is_left() -> None:
    model = seeded(CASES["linear"][0])
    x = images().requires_grad_()
    found = find_features(model, x.detach())
    assert found is not None
    (gradient,) = torch.autograd.grad(found(x)[:, 5].sum(), x)
    assert float(gradient.sum()) == 3.0 and int((gradient != 0).sum()) == 3
    assert all(not one._forward_pre_hooks and not one._forward_hooks for one in model.modules())


def test_a_named_module_gives_what_it_returns_before_another_changes_it() -> None:
    model = nn.Sequential(nn.Flatten(), nn.ReLU(inplace=True), nn.Linear(64, 3))
    x = images() - 0.5
    found = find_features(model, x, "0")
    assert found is not None and str(found) == "the output of '0'"
    assert torch.equal(found(x), x.flatten(1)), "not yet rectified"


def test_models_without_features_have_none() -> None:
    assert find_features(nn.Flatten(), images()) is None
    assert find_features(seeded(Folded), images()) is None
    shortcut = nn.Sequential(nn.Conv2d(1, 4, 1), nn.Flatten())
    assert find_features(shortcut, images()) is None, "not a channel for each class"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("haed", r"unknown module 'haed' \(features\); did you mean 'head'\? Allowed: body, head"),
        ("", r"unknown module '' ?.*\(features\)"),
        (5, "features: got 5, expected a string"),
    ],
)
def test_wrong_names_get_one_line(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_features(ByKeyword(), images(), name)


def test_a_module_without_a_row_for_each_image_is_refused() -> None:
    class Idle(ByKeyword):
        def __init__(self) -> None:
            super().__init__()
            self.idle = nn.Linear(1, 1)

    with pytest.raises(UserError, match="got no call of it for the output of 'idle', expected a row"):
        find_features(Idle(), images(), "idle")
    with pytest.raises(UserError, match=r"got shape \(12, 3\) and torch.float32 for the output of 'layer'"):
        find_features(seeded(Folded), images(), "layer")


def test_the_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 3)).train()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    assert isinstance(find_features(model, images()), Features)
    assert model.training
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())
