import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from soar.models import wide_resnet
from soar.models.wide_resnet import initialize


def test_forward_is_the_written_out_network() -> None:
    """Compare with the network in plain functions, from the same weights."""
    network = wide_resnet(depth=16, widen_factor=2, norm="none").double()
    weights = network.state_dict()
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    h = F.conv2d(x, weights["stem.weight"], padding=1)
    for index in range(6):
        stride = 2 if index in (2, 4) else 1
        block = f"blocks.{index}"
        active = F.relu(h)
        branch = F.conv2d(active, weights[f"{block}.conv1.weight"], stride=stride, padding=1)
        branch = F.conv2d(F.relu(branch), weights[f"{block}.conv2.weight"], padding=1)
        if index % 2 == 0:
            h = F.conv2d(active, weights[f"{block}.shortcut.weight"], stride=stride)
        h = h + branch
    assert h.shape[-2:] == (8, 8)
    h = F.avg_pool2d(F.relu(h), 8).flatten(1)
    expected = F.linear(h, weights["linear.weight"], weights["linear.bias"])
    torch.testing.assert_close(network(x), expected)


def test_convolutions_are_drawn_with_fan_out_and_biases_are_zero() -> None:
    network = wide_resnet(depth=10, widen_factor=4, conv_bias=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        initialize(network)
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            assert module.bias is not None
            assert not module.bias.any(), name
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 10_000:
            expected = math.sqrt(2 / (module.kernel_size[0] ** 2 * module.out_channels))
            assert module.weight.std().item() == pytest.approx(expected, rel=0.04), name
            assert abs(module.weight.mean().item()) < expected / 20, name


def test_silent_branches_leave_only_the_shortcuts() -> None:
    network = wide_resnet(depth=10, widen_factor=2, conv_bias=True, zero_init_residual=True).eval()
    h = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    logits = network(h)
    h = network.stem(h)
    for block in network.blocks:
        h = block.get_submodule("shortcut")(F.relu(block.get_submodule("norm1")(h)))
    expected = network.linear(F.relu(network.norm(h)).mean(dim=(2, 3)))
    torch.testing.assert_close(logits, expected)
