import pytest
import torch
from torch import nn

from soar.errors import UserError
from soar.models.layers import Layers, silence_branch


def test_norms_are_what_they_are_called() -> None:
    assert isinstance(Layers("none", False, 8).normalize(8), nn.Identity)
    assert isinstance(Layers("batch", False, 8).normalize(8), nn.BatchNorm2d)
    group = Layers("group", False, 4).normalize(8)
    assert isinstance(group, nn.GroupNorm)
    assert group.num_groups == 4


def test_groups_must_divide() -> None:
    with pytest.raises(UserError) as caught:
        Layers("group", False, 3).normalize(8)
    assert str(caught.value) == (
        "model.groups: got 3, expected a divisor of the 8 channels (flag --model.groups)"
    )


def test_silence_zeroes_the_norm_where_there_is_one() -> None:
    conv, norm = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
    silence_branch(conv, norm)
    assert conv.weight.abs().sum() > 0
    assert not norm.weight.any()
    silence_branch(conv, nn.Identity())
    assert not conv(torch.ones(1, 2, 1, 1)).any()
