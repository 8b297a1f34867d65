from __future__ import annotations

from contextlib import suppress

import torch
from torch import nn

from soar.model_state import placement, probing


def test_everything_is_restored_even_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout())
    model[1].eval()
    model[0].bias.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    with suppress(RuntimeError), probing(model):
        assert not any(module.training for module in model.modules())
        assert not any(parameter.requires_grad for parameter in model.parameters())
        raise RuntimeError
    assert modes == [module.training for module in model.modules()]
    assert flags == [parameter.requires_grad for parameter in model.parameters()]


def test_placement_of_models_with_and_without_numbers() -> None:
    assert placement(nn.Linear(1, 1).double()) == (torch.device("cpu"), torch.float64)
    assert placement(nn.Flatten()) == (torch.device("cpu"), torch.float32)
