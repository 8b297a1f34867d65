from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from soar.evaluation import inspection
from soar.evaluation.assessment import Note
from soar.evaluation.checks import SharedAttacks, consistency
from soar.evaluation.target import Target
from soar.threat import Linf
from tests.evaluation.checks.made import Linear, images

PIXELS = 36


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


class Growing(nn.Module):
    """Logits that grow with every call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.calls = Linear(), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        logits: Tensor = self.linear(x) * self.calls
        return logits


class Averaging(nn.Module):
    """Logits less their mean over the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = Linear()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(x)
        return logits - logits.mean(dim=0)


class Counting(nn.Module):
    """A buffer counts the calls and nothing else depends on it."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = Linear()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        logits: Tensor = self.linear(x)
        return logits


def network(*middle: nn.Module) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return nn.Sequential(*middle, nn.Flatten(), nn.Linear(PIXELS, 3))


def probed(model: nn.Module) -> SharedAttacks:
    data = images(12), torch.zeros(12, dtype=torch.int64)
    return SharedAttacks(target=Target(model=model, data=data, threat=Linf("8/255")))


def test_a_function_of_the_image_is_sound() -> None:
    found = consistency.examine(probed(Linear().eval()))
    assert found.finding == "sound" and found.sentence == "An image always gets the same output."
    assert found.numbers == {"in training mode": 0, "changed buffers": 0} and found.excess == 0


@pytest.mark.parametrize(
    ("model", "odd", "reason"),
    [
        (network(Restless(nn.Dropout())), {"random", "modes"}, "randomized"),
        (Growing(), {"random", "state"}, "randomized"),
        (Counting(), {"state"}, "from call to call"),
        (Averaging(), {"batch"}, "other images of the batch"),
        (
            network(Restless(nn.BatchNorm2d(1))),
            {"state", "batch", "modes"},
            "BatchNorm or Dropout stays in training mode",
        ),
        (network(nn.BatchNorm2d(1, track_running_stats=False)), {"batch"}, "robustness of its own"),
        (nn.Sequential(Linear(), nn.Softmax(dim=1)), {"probabilities"}, "in place of logits"),
    ],
    ids=["dropout", "growing", "counting", "averaging", "batch norm", "batch statistics", "softmax"],
)
def test_oddities_are_suspicious(model: nn.Module, odd: set[str], reason: str) -> None:
    found = consistency.examine(probed(model))
    assert found.finding == "suspicious" and reason in found.sentence and found.advice
    assert {name for name in found.numbers if isinstance(found.numbers[name], str)} == odd
    assert found.excess == consistency.EXCESS


def test_a_randomized_model_is_sent_to_the_suite_for_it() -> None:
    found = consistency.examine(probed(network(Restless(nn.Dropout()))))
    assert found.advice[0] == "average"
    assert "state" not in found.numbers


def test_a_generator_of_its_own_is_a_memory() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.generator = Linear(), torch.Generator().manual_seed(0)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.linear(x)
            return logits + torch.rand(logits.shape, generator=self.generator)

    assert "state" in consistency.examine(probed(Own())).numbers


@pytest.mark.parametrize("layer", [nn.BatchNorm2d(1), nn.Dropout()], ids=["batch norm", "dropout"])
def test_a_model_handed_over_in_training_mode_is_only_mentioned(layer: nn.Module) -> None:
    model = network(layer).train()
    found = consistency.examine(probed(model))
    assert found.finding == "sound" and "1 BatchNorm or Dropout modules in training mode" in found.sentence
    assert found.numbers["in training mode"] == 1 and model.training


def test_layers_that_stay_in_training_mode_are_not_said_to_have_left_it() -> None:
    found = consistency.examine(probed(network(Restless(nn.Dropout())).train()))
    assert "measured in eval mode" not in found.sentence


def test_the_model_is_left_as_it_was() -> None:
    model = network(Restless(nn.BatchNorm2d(1)), nn.Dropout()).train()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    numbers = torch.get_rng_state()
    asked = probed(model)
    asked.target.__dict__["logits"] = torch.zeros(12, 3)  # the clean predictions are not this check's
    consistency.examine(asked)
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())
    assert torch.equal(numbers, torch.get_rng_state()) and model.training


def test_what_cannot_be_checked_is_said() -> None:
    found = consistency.examine(probed(Linear(factor=float("nan"))))
    assert found.finding == "inconclusive" and "NaN" in found.sentence
    alone = nn.Sequential(nn.Flatten(), Restless(nn.BatchNorm1d(PIXELS)), nn.Linear(PIXELS, 3))
    assert "fails on 1 images" in consistency.examine(probed(alone)).sentence


def test_every_warning_of_an_inspection_is_known_and_others_are_not() -> None:
    for model, key in [
        (nn.Sequential(Linear(), nn.Softmax(dim=1)), "probabilities"),
        (network(Restless(nn.Dropout())), "random"),
        (Averaging(), "batch"),
        (network(Restless(nn.BatchNorm2d(1))), "modes"),
    ]:
        notes = inspection.inspect(probed(model).target)
        assert key in consistency.judge(notes).numbers
        assert key in {note.kind for note in notes}
    # What counts is the kind: neither its own words nor those of another kind make a note of any other.
    text = "the model is randomized; answers depend on the batch; the model returns probabilities"
    assert consistency.judge([Note("other", text), Note("outputs", text)]).finding == "sound"
    assert consistency.judge([Note("random", "")]).finding == "suspicious"
