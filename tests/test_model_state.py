from __future__ import annotations

from contextlib import suppress

import pytest
import torch
from torch import nn

from soar.errors import UserError
from soar.model_state import knowing, logits_of, placement, probing


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


def test_a_model_is_handed_a_copy_that_differentiates_to_what_was_kept() -> None:
    x = torch.tensor([[0.5, 1.0]], requires_grad=True)
    logits = logits_of(lambda given: given.mul_(3), x)
    assert x.tolist() == [[0.5, 1.0]] and logits.tolist() == [[1.5, 3.0]]
    assert torch.autograd.grad(logits.sum(), x)[0].tolist() == [[3.0, 3.0]]


def test_a_label_that_the_model_does_not_have_is_refused_within_the_context_only() -> None:
    x = torch.zeros(1, 2)
    with (
        knowing(torch.tensor([0, 2])),
        pytest.raises(UserError, match=r"^labels: got 2, expected 0 to 1 for 2"),
    ):
        logits_of(nn.Identity(), x)
    assert logits_of(nn.Identity(), x).shape == (1, 2)
    with (
        pytest.raises(UserError, match=r"^labels: got -1, expected classes counted from 0$"),
        knowing(x[0].long() - 1),
    ):
        pass
