from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from soar.models import resnet10
from soar.training.weights import Average, memory_layout

CPU = torch.device("cpu")


def test_the_average_of_a_known_sequence() -> None:
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    average = Average(model, decay=0.15)
    expected = 1.0
    for step, (value, decay) in enumerate([(2.0, 0.1), (5.0, 0.15), (3.0, 0.15)], start=1):
        with torch.no_grad():
            model.weight.fill_(value)
        average.update(step)
        expected = decay * expected + (1 - decay) * value
        [weight] = average.model.parameters()
        assert float(weight) == pytest.approx(expected)


def test_statistics_are_averaged_counts_copied_and_the_copy_is_frozen() -> None:
    model = nn.BatchNorm1d(2)
    average = Average(model, decay=0.5)
    model(torch.randn(8, 2) + 10)
    average.update(1000)
    copy = average.model
    assert isinstance(copy, nn.BatchNorm1d)
    assert isinstance(copy.running_mean, torch.Tensor)
    assert isinstance(model.running_mean, torch.Tensor)
    torch.testing.assert_close(copy.running_mean, model.running_mean / 2)
    assert copy.num_batches_tracked == 1
    assert not copy.training
    assert not any(parameter.requires_grad for parameter in copy.parameters())
    assert model.training


@pytest.mark.parametrize(
    "layer, layout",
    [
        (nn.Conv2d(4, 8, 1, stride=2), torch.contiguous_format),
        (nn.Conv2d(16, 32, 1, stride=2, groups=4), torch.contiguous_format),
        (nn.Conv2d(8, 8, 1, stride=2), torch.channels_last),
        (nn.Conv2d(4, 8, 1), torch.channels_last),
        (nn.Conv2d(4, 8, 3, stride=2), torch.channels_last),
        (nn.Linear(4, 8), torch.channels_last),
    ],
)
def test_only_layers_with_the_broken_kernel_stay_contiguous(
    layer: nn.Module, layout: torch.memory_format
) -> None:
    model = nn.Sequential(nn.Conv2d(3, 16, 3), layer)
    assert memory_layout(model, CPU, channels_last=True) == layout
    assert memory_layout(model, torch.device("cuda"), channels_last=True) == torch.channels_last
    assert memory_layout(model, CPU, channels_last=False) == torch.contiguous_format


def test_networks_of_the_papers_width_are_fast() -> None:
    assert memory_layout(resnet10(), CPU, channels_last=True) == torch.channels_last
    assert memory_layout(resnet10(width=4), CPU, channels_last=True) == torch.contiguous_format


def test_a_narrow_network_survives_training() -> None:
    # In a process of its own: without the guard it dies of corrupted memory.
    code = """
import torch
from soar.models import resnet10
from soar.training.weights import memory_layout
model = resnet10(10, (1, 28, 28), width=4)
layout = memory_layout(model, torch.device("cpu"), channels_last=True)
model.to(memory_format=layout)
x = torch.rand(32, 1, 28, 28).to(memory_format=layout)
for _ in range(20):
    model(x).logsumexp(1).sum().backward()
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
