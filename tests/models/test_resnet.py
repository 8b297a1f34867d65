from typing import Literal

import pytest
import torch
import torch.nn.functional as F

from soar.models import build, resnet10, resnet18
from soar.models.resnet import BasicBlock, ResNet


def test_forward_is_the_written_out_network() -> None:
    """Compare with the network in plain functions, from the same weights."""
    network = resnet10(width=3, conv_bias=False).double()
    weights = network.state_dict()
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    h = F.relu(F.conv2d(x, weights["stem.weight"], padding=1))
    for stage in range(4):
        stride = 1 if stage == 0 else 2
        block = f"blocks.{stage}"
        branch = F.relu(F.conv2d(h, weights[f"{block}.conv1.weight"], stride=stride, padding=1))
        branch = F.conv2d(branch, weights[f"{block}.conv2.weight"], padding=1)
        if stage > 0:
            h = F.conv2d(h, weights[f"{block}.shortcut.0.weight"], stride=stride)
        h = F.relu(branch + h)
    assert h.shape[-2:] == (4, 4)
    h = F.avg_pool2d(h, 4).flatten(1)
    expected = F.linear(h, weights["linear.weight"], weights["linear.bias"])
    torch.testing.assert_close(network(x), expected)


@pytest.mark.parametrize("norm", ["none", "batch", "group"])
def test_silent_branches_leave_only_the_shortcuts(norm: Literal["none", "batch", "group"]) -> None:
    network = resnet18(width=4, norm=norm, groups=2, conv_bias=True, zero_init_residual=True).eval()
    x = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    h = F.relu(network.stem_norm(network.stem(x)))
    for block in network.blocks:
        h = F.relu(block.get_submodule("shortcut")(h))
    torch.testing.assert_close(network(x), network.linear(h.mean(dim=(2, 3))))


def test_he_init_keeps_the_size_of_signals_and_the_default_does_not() -> None:
    x = torch.rand(16, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    sizes = {}
    for he_init in (False, True):
        model = build("resnet10", seed=0, options={"width": 16, "he_init": he_init})
        assert isinstance(model, ResNet)
        with torch.no_grad():
            features = model.blocks(torch.relu(model.stem(x)))
        sizes[he_init] = float(features.square().mean().sqrt() / x.square().mean().sqrt())
    assert sizes[False] < 0.2
    assert 0.5 < sizes[True] < 20


def test_blocks_begin_as_their_shortcuts_with_he_init_too() -> None:
    model = resnet10(width=4, conv_bias=True, he_init=True, zero_init_residual=True)
    for block in model.blocks:
        assert isinstance(block, BasicBlock) and block.conv2.bias is not None
        assert not block.conv2.weight.any() and not block.conv2.bias.any()
        assert block.conv1.weight.any()
