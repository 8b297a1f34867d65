from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.prediction import LogitsOnly, find_logits, knowing, logits_of, predict
from tests.attacks.problems import OUTPUTS

X = torch.zeros(5, 1, 2, 3)


def test_batches_are_put_together_in_order() -> None:
    x = torch.arange(30.0).reshape(5, 1, 2, 3) / 30
    assert torch.equal(predict(nn.Flatten(), x, 2), x.flatten(1))
    assert predict(nn.Flatten(), x[:0]).shape == (0, 6)


def test_bytes_are_shown_as_parts_of_one() -> None:
    assert predict(nn.Flatten(), torch.full((1, 1, 1, 2), 255, dtype=torch.uint8)).tolist() == [[1.0, 1.0]]


def test_a_model_for_other_images_is_told_in_one_line_and_keeps_its_own_error() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 10))
    with pytest.raises(UserError) as told:
        predict(model, X, 4)
    text = str(told.value)
    assert text.startswith("model: fails on 4 images of shape 1 x 2 x 3 (RuntimeError: ")
    assert "\n" not in text
    assert isinstance(told.value.__cause__, RuntimeError), "the user's own traceback is kept for Python"


def test_what_a_model_says_itself_is_not_said_again() -> None:
    class Particular(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise UserError("images: got gray ones, expected colors")

    with pytest.raises(UserError, match=r"^images: got gray ones, expected colors$"):
        predict(Particular(), X)


class Gives(nn.Module):
    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x: Tensor) -> object:
        return self.answer


@pytest.mark.parametrize(
    "answer, message",
    [
        (torch.tensor(1.0), "model: got a single number as output, expected logits of shape"),
        ({"out": X, "aux": X}, "^model: got a dict of out, aux as output, expected a tensor of logits"),
        ({}, "^model: got a dict of nothing as output, expected a tensor of logits"),
        ({"logits": None, "loss": X}, "^model: got a dict of logits, loss as output, expected a tensor"),
        ({"logits": X}, r"^model: got outputs of shape \(5, 1, 2, 3\), expected logits of shape"),
        (([X], X), "^model: got a tuple of list, Tensor as output, expected .* or the first of a tuple"),
        ((), "^model: got a tuple of nothing as output"),
        ([X], "^model: got a list as output, expected a tensor of logits"),
        (torch.Size([1, 2]), "^model: got a Size of int, int as output"),
        (None, "^model: got a NoneType as output, expected a tensor of logits"),
    ],
)
def test_what_is_not_a_batch_of_logits_is_refused(answer: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        predict(Gives(answer), X)


@pytest.mark.parametrize("kind", OUTPUTS)
def test_logits_are_found_among_other_outputs(kind: str) -> None:
    logits = torch.rand(5, 3)
    assert find_logits(OUTPUTS[kind](logits)) is logits
    assert torch.equal(predict(Gives(OUTPUTS[kind](logits)), X), logits)
    assert LogitsOnly(Gives(OUTPUTS[kind](logits)))(X) is logits


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
