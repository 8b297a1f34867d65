from __future__ import annotations

import pytest
import torch
from torch import nn

from soar.training.averaging import Average


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
