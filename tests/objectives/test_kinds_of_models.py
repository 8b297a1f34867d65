"""Every objective on models that other people write: in place, in mixed precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.objectives import OBJECTIVES
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import OUTPUTS, Answering, Autocast, DoubleHead, Normalized, images

for_objectives = pytest.mark.parametrize("name", [one.name for one in OBJECTIVES])


@pytest.mark.parametrize("threat", [Linf("1/10"), L2("1/2")], ids=str)
@for_objectives
def test_a_model_that_works_in_place_is_trained_like_one_that_does_not(name: str, threat: Threat) -> None:
    x, y, index = images(6).float(), torch.tensor([0, 1, 2, 3, 4, 0]), torch.arange(6)
    given, losses, slopes = x.clone(), [], []
    for in_place in (False, True):
        model = Normalized(in_place=in_place)
        objective = OBJECTIVES[name].build(model, threat)
        for _ in range(2):
            loss = objective(x, y, index).loss
            loss.backward()
        losses.append(loss.detach())
        slopes.append([parameter.grad for parameter in model.parameters()])
    assert torch.equal(x, given), "the caller's images are left as they were"
    assert torch.equal(*losses)
    assert all(one is not None and torch.equal(one, other) for one, other in zip(*slopes, strict=True))


@pytest.mark.filterwarnings("ignore:.* on a model with BatchNorm")
@for_objectives
def test_a_model_whose_output_holds_more_than_logits_is_trained_like_one_of_logits(name: str) -> None:
    def trained(kind: str) -> list[Tensor]:
        model = Answering(kind)
        found = OBJECTIVES[name].build(model, Linf("1/10"))(X, Y, INDEX)
        found.loss.backward()
        return [found.loss, found.logits, *(weight.grad for weight in model.parameters())]

    wanted = trained("")
    for kind in OUTPUTS:
        assert all(map(torch.equal, trained(kind), wanted)), kind


@pytest.mark.parametrize("options", [{"hvp": "exact"}, {"hvp": "finite-difference"}, {"init": "zero"}])
def test_every_product_of_soar_takes_a_model_that_works_in_place(options: dict[str, str]) -> None:
    x, y = images(6).float(), torch.tensor([0, 1, 2, 3, 4, 0])
    given = x.clone()
    found = [
        OBJECTIVES["soar"].build(Normalized(in_place=in_place), Linf("1/10"), **options)(x, y).loss
        for in_place in (False, True)
    ]
    assert torch.equal(*found) and torch.equal(x, given)


X, Y, INDEX = images(6).float(), torch.tensor([0, 1, 2, 3, 4, 0]), torch.arange(6)


@for_objectives
def test_weights_in_which_gradients_vanish_are_refused(name: str) -> None:
    build, threat = OBJECTIVES[name].build, Linf("1/10")
    made = build(Normalized(), threat)
    with pytest.raises(
        UserError, match=r"^model: got net\..* of torch.float16, .*: convert them by model.float"
    ):
        build(Normalized().half(), threat)
    made.model.half()
    with pytest.raises(UserError, match=r"^model: got net\..* of torch.float16, expected weights of float32"):
        made(X.half(), Y, INDEX)
    if made.allows_bfloat16:
        assert build(Normalized().bfloat16(), threat)(X.bfloat16(), Y, INDEX).loss.isfinite()
    else:
        with pytest.raises(
            UserError, match=r"^model: got net\..* of torch.bfloat16, expected weights of float32"
        ):
            build(Normalized().bfloat16(), threat)


@for_objectives
def test_logits_of_half_precision_are_refused_where_gradients_are_compared(name: str) -> None:
    made = OBJECTIVES[name].build(Autocast(), Linf("1/10"))
    if made.allows_bfloat16:
        assert made(X, Y, INDEX).loss.isfinite()
    else:
        refused = r"got logits of torch.bfloat16, which \w+ cannot use|got autocast, whose rounding is not"
        with pytest.raises(UserError, match=f"^model: ({refused})"):
            made(X, Y, INDEX)


@for_objectives
def test_a_float64_head_is_trained(name: str) -> None:
    made = OBJECTIVES[name].build(DoubleHead(), Linf("1/10"))
    made(X, Y, INDEX).loss.backward()
    assert all(parameter.grad is not None for parameter in made.model.parameters())


class Gives(nn.Module):
    def __init__(self, change: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.net, self.change = Normalized(), change

    def forward(self, x: Tensor) -> object:
        return self.change(self.net(x))


# What bounds refuse before the model has returned anything.
BOUNDED = {"got outputs of type torch.int64": "torch's `long`", "fails on 6 images": "a product of matrices"}


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda z: [z], "got a list as output, expected a tensor of logits .* returns only its logits"),
        (lambda z: {"scores": z}, "got a dict of scores as output"),
        (lambda z: None, "got a NoneType as output"),
        (lambda z: z[:3], "got 3 rows of logits for 6 images"),
        (lambda z: z[:, :1], "got logits of 1 class"),
        (lambda z: z.long(), "got outputs of type torch.int64"),
        (lambda z: z.sum(), "got a single number"),
        (lambda z: z @ z, r"fails on 6 images of shape 1 x 3 x 4 \(RuntimeError"),
    ],
)
@for_objectives
def test_what_a_model_must_return_is_said_in_one_line(
    name: str, change: Callable[[Tensor], object], message: str
) -> None:
    made = OBJECTIVES[name].build(Gives(change), Linf("1/10"))
    if name == "ibp":
        refusals = [what for start, what in BOUNDED.items() if message.startswith(start)]
        message = f"got {refusals[0]}" if refusals else message
    with pytest.raises(UserError, match=f"^model: {message}") as told:
        made(X, Y, INDEX)
    assert "\n" not in str(told.value)


@for_objectives
def test_labels_and_indices_are_checked_at_every_call(name: str) -> None:
    made = OBJECTIVES[name].build(Normalized(), Linf("1/10"))
    for _ in range(2):
        for labels in (Y + 1, Y - 1):
            with pytest.raises(UserError, match=r"^labels: got (5|-1), expected "):
                made(X, labels, INDEX)
        with pytest.raises(UserError, match=r"^got 6 images and 5 labels, expected as many of each$"):
            made(X, Y[:5], INDEX)
        with pytest.raises(UserError, match=r"^labels: got torch.int32, expected"):
            made(X, Y.int(), INDEX)
        with pytest.raises(
            UserError, match=r"^index: got shape \(5,\) and torch.int64, expected 6 whole numbers"
        ):
            made(X, Y, INDEX[:5])
        with pytest.raises(UserError, match=r"^index: got a tensor on the device meta"):
            made(X, Y, INDEX.to("meta"))
        with pytest.raises(UserError, match=r"^step: got -1, expected at least 0$"):
            made(X, Y, INDEX, -1)
        with pytest.raises(UserError, match=r"^images: got a ndarray, expected a torch.Tensor$"):
            made(X.numpy(), Y, INDEX)
        made(X, Y, INDEX)


def test_a_wrong_first_batch_does_not_count_as_checked() -> None:
    made = OBJECTIVES["standard"].build(Normalized())
    for _ in range(2):
        with pytest.raises(UserError, match=r"^images: got pixels from 0 to 255, expected \[0, 1\]"):
            made(255 * torch.arange(24).reshape(2, 1, 3, 4) / 23, Y[:2])


@for_objectives
def test_everything_can_be_trained_under_autocast(name: str) -> None:
    made = OBJECTIVES[name].build(Normalized(), Linf("1/10"))
    with torch.autocast("cpu", torch.bfloat16):
        for step in range(2):
            output = made(X, Y, INDEX, step)
    assert output.loss.dtype == torch.float32
    output.loss.backward()
    gradients = [parameter.grad for parameter in made.model.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
