"""Parameter counts are the exact oracle: they pin every layer of every network."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from soar import models

COUNTS: list[tuple[Callable[[], nn.Module], int]] = [
    (models.resnet10, 4_897_482),
    (partial(models.resnet10, conv_bias=True), 4_900_362),
    (partial(models.resnet10, norm="batch"), 4_903_242),
    (partial(models.resnet10, norm="group"), 4_903_242),
    (models.resnet18, 11_173_962),
    (models.wide_resnet, 46_160_474),
    (partial(models.wide_resnet, depth=28, widen_factor=4), 5_849_050),
    (partial(models.wide_resnet, depth=28, widen_factor=8), 23_354_842),
    (partial(models.wide_resnet, depth=28, widen_factor=10), 36_479_194),
    (models.cnn6, 890_410),
    (models.cnn8, 1_637_730),
]


@pytest.mark.parametrize("make, expected", COUNTS)
def test_parameter_count(make: Callable[[], nn.Module], expected: int) -> None:
    with torch.device("meta"):
        network = make()
    assert sum(parameter.numel() for parameter in network.parameters()) == expected


def test_fixed_statistics_are_buffers_not_parameters() -> None:
    with torch.device("meta"):
        network = models.cnn6(input_normalization="cifar10")
    assert sum(parameter.numel() for parameter in network.parameters()) == 890_410
    assert {name for name, _ in network.named_buffers()} == {
        "normalization.mean",
        "normalization.std",
    }
