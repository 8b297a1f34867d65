import math
from typing import Any

import pytest
import torch
from torch import nn

from soar.errors import UserError
from soar.models.layers import Activation, Layers, silence_branch


def test_norms_are_what_they_are_called() -> None:
    assert isinstance(Layers("none", False, 8, "relu").normalize(8), nn.Identity)
    assert isinstance(Layers("batch", False, 8, "relu").normalize(8), nn.BatchNorm2d)
    group = Layers("group", False, 4, "relu").normalize(8)
    assert isinstance(group, nn.GroupNorm)
    assert group.num_groups == 4


def test_groups_must_divide() -> None:
    with pytest.raises(UserError) as caught:
        Layers("group", False, 3, "relu").normalize(8)
    assert str(caught.value) == (
        "model.groups: got 3, expected a divisor of the 8 channels (flag --model.groups)"
    )


@pytest.mark.parametrize(
    "name, at_minus_one, at_two",
    [
        ("relu", 0.0, 2.0),
        ("silu", -1 / (1 + math.e), 2 / (1 + math.exp(-2))),
        ("gelu", -0.5 * math.erfc(1 / math.sqrt(2)), 1 + math.erf(math.sqrt(2))),
        ("softplus", math.log(1 + math.exp(-1)), math.log(1 + math.exp(2))),
    ],
)
def test_activations_are_what_they_are_called(name: Activation, at_minus_one: float, at_two: float) -> None:
    found = Layers("none", False, 8, name).activate()(torch.tensor([-1.0, 2.0], dtype=torch.float64))
    assert found.tolist() == pytest.approx([at_minus_one, at_two], rel=1e-12)


@pytest.mark.parametrize("name", ["swish", ["silu"]])
def test_other_activations_are_refused(name: Any) -> None:
    with pytest.raises(UserError, match=r"unknown activation .*gelu, relu, silu, softplus"):
        Layers("none", False, 8, name)


def test_silence_zeroes_the_norm_where_there_is_one() -> None:
    conv, norm = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
    silence_branch(conv, norm)
    assert conv.weight.abs().sum() > 0
    assert not norm.weight.any()
    silence_branch(conv, nn.Identity())
    assert not conv(torch.ones(1, 2, 1, 1)).any()
