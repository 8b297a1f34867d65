from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from soar.errors import UserError
from soar.evaluation import inspection
from soar.evaluation.inspection import inspect
from soar.evaluation.target import Target
from soar.threat import Linf

CLASSES = 4


def some(count: int = 12, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    x = torch.rand(count, 1, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x.to(dtype), torch.arange(count) % CLASSES


class Body(nn.Sequential):
    """A small network that counts its passes, with whatever a test puts behind it."""

    def __init__(self, *last: nn.Module) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            layers = nn.Conv2d(1, 5, 2), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(20, CLASSES)
        super().__init__(*layers, *last)
        self.asked: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.asked.append(len(x))
        logits: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return logits


class Does(nn.Module):
    """A layer that does one thing."""

    def __init__(self, forward: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Restless(nn.Module):
    """A layer that stays in training mode."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def train(self, mode: bool = True) -> Restless:
        return super().train(True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x)
        return result


def target(model: nn.Module, count: int = 12, batch_size: int = 128, logits: Tensor | None = None) -> Target:
    """Put a model before some images; what it predicted before may be given."""
    made = Target(model=model, data=some(count), threat=Linf("0.1"), batch_size=batch_size)
    if logits is not None:
        made.__dict__["logits"] = logits
    return made


def found(model: nn.Module, batch_size: int = 128) -> tuple[str, ...]:
    """The messages of what is found."""
    return tuple(note.message for note in inspect(target(model, batch_size=batch_size)))


@pytest.mark.parametrize(
    "model",
    [
        Body(),
        Body().train(),
        Body().double(),
        Body().to(torch.bfloat16),
        Body(nn.Dropout()),
        Body(nn.LogSoftmax(1)),
        Body(nn.Sigmoid()),
        Body(Does(lambda x: 1e6 * x)),
        Body(Does(lambda x: 0 * x)),
    ],
    ids=["eval", "train", "float64", "bfloat16", "dropout", "log-probabilities", "scores", "large", "zero"],
)
@pytest.mark.parametrize("batch_size", [4, 128])
def test_sound_models_get_no_warning(model: nn.Module, batch_size: int) -> None:
    assert found(model, batch_size=batch_size) == ()


def test_two_passes_are_made_and_no_more() -> None:
    for count, expected in [(12, [5, 1]), (2, [2, 1]), (1, [1])]:
        made = target(Body(), count, batch_size=5)
        assert len(made.logits) == count
        made.model.asked.clear()  # type: ignore[operator, union-attr]
        inspect(made)
        assert made.model.asked == expected


def test_pixels_may_be_bytes() -> None:
    images, labels = some()
    data = (images * 255).to(torch.uint8), labels
    assert inspect(Target(model=Body(), data=data, threat=Linf("0.1"))) == ()


def test_without_images_nothing_is_asked() -> None:
    model = Body()
    assert inspect(target(model).subset(slice(0))) == ()
    assert model.asked == []


def refused(outputs: object, labels: Tensor | None = None) -> str:
    """The message about a model with these outputs for six images."""
    images, right = some(6)
    model = Does(lambda _: outputs)  # type: ignore[arg-type, return-value]
    with pytest.raises(UserError) as caught:
        inspect(Target(model=model, data=(images, right if labels is None else labels), threat=Linf("0.1")))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_outputs_that_are_not_logits_are_refused() -> None:
    a_tensor = (
        "expected a tensor of logits (examples, classes), one named 'logits' or the first of a tuple;"
        " wrap the model in a module that returns only its logits"
    )
    assert refused(([], torch.zeros(6, 4))) == f"model: got a tuple of list, Tensor as output, {a_tensor}"
    assert refused({"logits": 0}) == f"model: got a dict of logits as output, {a_tensor}"
    expected = "expected logits of shape (examples, classes)"
    assert refused(torch.zeros(6, 4, 1, 1)) == f"model: got outputs of shape (6, 4, 1, 1), {expected}"
    assert refused(torch.zeros(6)) == f"model: got outputs of shape (6,), {expected}"
    assert refused(torch.zeros(3, 4)) == "model: got 3 rows of logits for 6 images, expected one for each"
    assert refused(torch.zeros(6, 1)) == (
        "model: got logits of 1 class, expected at least 2; for a single score z of two classes return (0, z)"
    )
    whole = torch.zeros(6, 4, dtype=torch.int64)
    assert refused(whole) == "model: got outputs of type torch.int64, expected floating-point logits"


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_logits_that_are_not_finite_are_refused(number: float) -> None:
    logits = torch.zeros(6, 4)
    logits[2, 1] = logits[2, 3] = logits[4, 0] = number
    assert refused(logits) == (
        "model: got logits that are NaN or infinite for 2 of 6 images, first for image 2;"
        " expected finite numbers"
    )


def test_labels_outside_the_classes_are_refused() -> None:
    for label in (-1, 4, 255):
        labels = torch.tensor([0, 1, 2, label, 3, label])
        assert refused(torch.zeros(6, 4), labels) == (
            f"labels: got {label} for image 3 (2 of 6 images), expected 0 to 3 for 4 classes"
        )


@given(labels=st.lists(st.integers(-3, 8), min_size=1, max_size=6), classes=st.integers(2, 6))
def test_labels_pass_if_and_only_if_all_are_classes(labels: list[int], classes: int) -> None:
    images = torch.rand(len(labels), 1, 1, classes, generator=torch.Generator().manual_seed(0)) / classes
    made = Target(model=nn.Flatten(), data=(images, torch.tensor(labels)), threat=Linf("0.1"))
    if all(0 <= label < classes for label in labels):
        assert inspect(made) == ()
    else:
        with pytest.raises(UserError, match="labels: got"):
            inspect(made)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_probabilities_are_seen(dtype: torch.dtype) -> None:
    (warning,) = found(Body(nn.Softmax(1)).to(dtype))
    assert warning == (
        "model: got outputs in [0, 1] that sum to 1, expected logits; the model returns probabilities, which"
        " weakens attacks on the cross-entropy and on margins: remove the softmax"
    )


@pytest.mark.parametrize(
    "row, is_distribution",
    [
        ([0.7, 0.1, 0.1, 0.1], True),
        ([1.0, 0.0, 0.0, 0.0], True),
        ([0.7, 0.1, 0.1, 0.10005], True),
        ([0.7, 0.1, 0.1, 0.1002], False),
        ([0.7, 0.1, 0.1, 0.0998], False),
        ([0.9, -0.2, 0.3, 0.0], False),
        ([1.2, -0.2, 0.0, 0.0], False),
    ],
)
def test_every_row_must_be_a_distribution_to_be_probabilities(
    row: list[float], is_distribution: bool
) -> None:
    outputs = torch.tensor([[0.25, 0.25, 0.25, 0.25], row, [0.0, 0.5, 0.0, 0.5]])
    data = torch.full((3, 1, 2, 2), 0.5), torch.arange(3)
    made = Target(model=Does(lambda x: outputs[: len(x)]), data=data, threat=Linf("0.1"))
    warnings = inspect(made)
    assert [one.kind for one in warnings] == ["probabilities"] * is_distribution


def test_randomized_outputs_are_seen_with_their_size() -> None:
    steps = iter(range(10))
    (warning,) = found(Body(Does(lambda x: 0 * x + torch.tensor([2.0, 0, 0, 0]) + 0.25 * next(steps))))
    assert warning == (
        "model: got outputs that differ by up to 0.25 (largest logit 2) between two passes, expected the"
        ' same; the model is randomized: use attacks="rand"'
    )


@pytest.mark.parametrize("noise", [1e-3, 1.0])
def test_noise_is_seen_even_from_a_generator_that_was_put_back(noise: float) -> None:
    model = Body(Does(lambda x: x + noise * torch.randn_like(x)))
    made = target(model)
    with torch.random.fork_rng(devices=[]):
        assert len(made.logits) == 12
    (warning,) = inspect(made)
    assert warning.kind == "random" and 'use attacks="rand"' in warning.message
    model.asked.clear()
    before = torch.get_rng_state()
    inspect(made)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.asked == [12], "an image alone tells nothing about a randomized model"


def test_rounding_is_not_randomness() -> None:
    model = Body()
    logits = target(model).logits
    assert inspect(target(model, logits=logits * (1 + 1e-6))) == ()
    assert len(inspect(target(model, logits=logits * (1 + 1e-4)))) == 1


def test_outputs_that_depend_on_the_batch_are_seen() -> None:
    model = Body()
    model[1] = nn.BatchNorm2d(5, track_running_stats=False)
    (warning,) = found(model)
    assert re.fullmatch(
        r"model: got outputs that differ by up to [\d.]+ \(largest logit [\d.]+\) between an image"
        r" alone and in a batch, expected the same; outputs depend on the batch, as with BatchNorm on batch"
        r" statistics",
        warning,
    )
    # Low precision hides less than that.
    for dtype in (torch.float64, torch.bfloat16):
        (warning,) = found(Body(Does(lambda x: x - x.mean(0))).to(dtype))
        assert "outputs depend on the batch" in warning
        (warning,) = found(Body(Does(lambda x: x + torch.randn_like(x))).to(dtype))
        assert "randomized" in warning


@pytest.mark.parametrize(
    "last, message",
    [
        (
            nn.BatchNorm1d(CLASSES, track_running_stats=False),
            r"model: fails on 1 images of shape 1 x 3 x 3 \(ValueError: Expected more than 1 value .*\);"
            " expected one that takes them",
        ),
        (
            Does(torch.squeeze),
            r"model: got outputs of shape \(4,\), expected logits of shape \(examples, classes\)",
        ),
    ],
)
def test_models_that_do_not_take_one_image_are_refused(last: nn.Module, message: str) -> None:
    with pytest.raises(UserError) as caught:
        found(Body(last))
    assert re.fullmatch(message, str(caught.value))


def test_layers_that_stay_in_training_mode_are_seen() -> None:
    model = Body()
    model[1] = Restless(nn.BatchNorm2d(5))
    dependence, mode = found(model)
    assert "outputs depend on the batch" in dependence
    assert mode == (
        "model: got 1 BatchNorm or Dropout modules in training mode after model.eval(), such as '1.layer'"
        " (BatchNorm2d), expected none; an overridden train() or forward() puts them there"
    )
    randomness, mode = found(Body(Restless(nn.Dropout()), Restless(nn.AlphaDropout())))
    assert 'use attacks="rand"' in randomness
    assert "got 2 BatchNorm or Dropout modules" in mode and "'5.layer' (Dropout)" in mode


def test_a_forward_pass_that_switches_modes_is_seen() -> None:
    class Switching(Body):
        def forward(self, x: Tensor) -> Tensor:
            self[1].train()
            return super().forward(x)

    assert any("'1' (BatchNorm2d)" in warning for warning in found(Switching()))


def test_everything_is_left_as_it_was() -> None:
    class Counting(Restless):
        """Makes a new buffer of its count each time."""

        count: Tensor

        def __init__(self) -> None:
            super().__init__(nn.BatchNorm2d(5))
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.count = self.count + 1
            return super().forward(x)

    model = Body(nn.Dropout())
    model[1] = Counting()
    made = target(model)
    assert len(made.logits) == 12
    model[0].train()
    model[4].bias.requires_grad_(False)
    buffers = {name: (id(buffer), buffer.clone()) for name, buffer in model.named_buffers()}
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    assert len(inspect(made)) == 2
    for name, buffer in model.named_buffers():
        assert id(buffer) == buffers[name][0] and torch.equal(buffer, buffers[name][1]), name
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == flags


@pytest.mark.parametrize(
    "outputs, labels, names, said",
    [
        (1000, list(range(10)), tuple("abcdefghij"), "model: got 1000 outputs for 10 classes, expected one"),
        (11, [0], tuple("abcdefghij"), "model: got 11 outputs for 10 classes, "),
        (1000, list(range(10)) * 2, (), "model: got 1000 outputs for labels up to 9, "),
        (21, list(range(10)) * 2, (), "model: got 21 outputs for labels up to 9, "),
        (20, list(range(10)) * 2, (), None),
        (1000, list(range(10)), (), None),
        (10, list(range(10)) * 2, tuple("abcdefghij"), None),
    ],
)
def test_outputs_beyond_the_classes_are_told(
    outputs: int, labels: list[int], names: tuple[str, ...], said: str | None
) -> None:
    found = inspection.spare_outputs(outputs, torch.tensor(labels), names)
    if said is None:
        assert found is None
    else:
        assert found is not None and found.kind == "outputs"
        assert found.message.startswith(said) and "\n" not in found.message


def test_more_names_than_outputs_are_refused() -> None:
    with pytest.raises(UserError, match=r"^class_names: got 3 names, expected at most 2, one per output$"):
        inspection.spare_outputs(2, torch.tensor([0]), ("a", "b", "c"))
