from __future__ import annotations

import pytest
import torch
from torch import nn

from soar.errors import UserError
from soar.training.prepare import check_fit
from tests.training import small


@pytest.mark.parametrize(
    "model, message",
    [
        (nn.Flatten(), "model: got no parameters that can be trained, expected at least one"),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(36, 2)).requires_grad_(False),
            "model: got no parameters that can be trained",
        ),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(784, 2)),
            r"model: fails on 2 images of shape 1 x 6 x 6 \(RuntimeError: ",
        ),
        (nn.Linear(6, 2), r"model: got outputs of shape \(2, 1, 6, 2\), expected logits of shape"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(model: nn.Module, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_fit(model, small.dataset())


def test_every_class_must_have_a_logit() -> None:
    data = small.dataset()
    three = type(data)(data.name, ("a", "b", "c"), data.shape, data.train, data.validation, data.test)
    with pytest.raises(UserError, match=r"^model: got logits of 2 classes, expected 3 for small$"):
        check_fit(small.network(), three)
    check_fit(small.network(), data)


def test_the_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.BatchNorm2d(1), nn.Dropout(), nn.Flatten(), nn.Linear(36, 2)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.get_rng_state()
    check_fit(model, small.dataset())
    assert model.training and all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(generator, torch.get_rng_state())


def test_outputs_beyond_the_classes_are_told() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 1000))
    with pytest.warns(UserWarning, match=r"^model: got 1000 outputs, expected 2 for small; "):
        check_fit(model, small.dataset())
