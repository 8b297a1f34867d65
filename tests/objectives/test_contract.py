from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from soar.errors import UserError
from soar.objectives import MMA, OBJECTIVES, PGI, Adversarial, Objective, Output, Standard, check_objective
from soar.objectives.memory import Memory
from soar.registry import Entry
from soar.threat import Linf
from tests.attacks.problems import SHAPE, TinyNet, images, said


@pytest.mark.parametrize("entry", list(OBJECTIVES), ids=lambda entry: entry.name)
def test_every_objective_keeps_the_contract(entry: Entry[Objective]) -> None:
    # There are no intervals of an l1 ball.
    check_objective(entry.build, norms=("linf", "l2") if entry.name == "ibp" else ("linf", "l2", "l1"))


@pytest.mark.parametrize("entry", list(OBJECTIVES), ids=lambda entry: entry.name)
def test_every_objective_is_described(entry: Entry[Objective]) -> None:
    assert entry.description.endswith(".") and len(entry.description) > 20


@pytest.mark.parametrize("entry", list(OBJECTIVES), ids=lambda entry: entry.name)
def test_every_objective_smooths_its_labels_and_nothing_else(entry: Entry[Objective]) -> None:
    model, x = TinyNet(seed=3), images(6)
    y = said(model, x)
    y[0] = (y[0] + 1) % 5
    asked: list[Tensor] = []
    model.register_forward_pre_hook(lambda _, given: asked.append(given[0].detach()))

    def loss(smoothing: float) -> tuple[Tensor, list[Tensor]]:
        asked.clear()
        objective = entry.build(model, Linf("0.02"))
        objective.label_smoothing = smoothing
        return objective(x, y, torch.arange(6), 0).loss.detach(), list(asked)

    (plain, points), (some, same), (more, _) = (loss(smoothing) for smoothing in (0.0, 0.1, 0.3))
    assert len(points) == len(same) and all(map(torch.equal, points, same)), "the inner points are the same"
    assert abs(some - plain) > 1e-3
    torch.testing.assert_close(more - plain, 3 * (some - plain))


@pytest.mark.parametrize("smoothing", [0.0, 0.25])
def test_classification_loss_is_the_mixture_written_out(smoothing: float) -> None:
    objective = Standard(TinyNet())
    objective.label_smoothing = smoothing
    logits = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 3.0]], dtype=torch.float64)
    log_p = logits - logits.exp().sum(dim=1, keepdim=True).log()
    own = -torch.stack([log_p[0, 2], log_p[1, 1]])
    expected = (1 - smoothing) * own - smoothing * log_p.mean(dim=1)
    torch.testing.assert_close(objective.classification_loss(logits, torch.tensor([2, 1])), expected)


class Remembering(Standard):
    needs_index = True


REMEMBERING: list[type[Objective]] = [Remembering, MMA, PGI]


@pytest.mark.parametrize("kind", REMEMBERING)
def test_an_objective_that_remembers_examples_asks_for_their_index(kind: type[Objective]) -> None:
    objective = kind(TinyNet(), Linf("0.1"))
    x, y = images(2), torch.tensor([0, 1])
    with pytest.raises(
        UserError, match=f"{kind.__name__} keeps values per example, so its data need indices"
    ):
        objective(x, y)
    assert objective.calls == 0, "a refused call draws no numbers"
    assert objective(x, y, torch.tensor([4, 2])).loss.isfinite()


@pytest.mark.parametrize("entry", list(OBJECTIVES), ids=lambda entry: entry.name)
def test_all_other_objectives_do_without_an_index(entry: Entry[Objective]) -> None:
    objective = entry.build(TinyNet(), Linf("0.1"))
    if type(objective) not in REMEMBERING:
        assert objective(images(2), torch.tensor([0, 1])).loss.isfinite()


class Summed(Standard):
    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        output = super().compute(x, y, index, step)
        return output._replace(loss=output.loss * len(y))


class Forgetful(Standard):
    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        self.model.eval()
        return super().compute(x, y, index, step)


class Greedy(Standard):
    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        self.model(x)
        return super().compute(x, y, index, step)


class Restless(Standard):
    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        noise = 1e-3 * torch.rand(x.shape, dtype=x.dtype)
        return super().compute(x + noise, y, index, step)


class Cut(Standard):
    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        output = super().compute(x, y, index, step)
        return output._replace(loss=output.loss.detach().requires_grad_())


@pytest.mark.parametrize(
    "broken, promise",
    [
        (Summed, "a batch is the mean of its examples"),
        (Forgetful, "the mode is left as it was"),
        (Greedy, "BatchNorm sees exactly one batch"),
        (Restless, "a batch is the mean of its examples|the same seed"),
        (Cut, "the gradient reaches"),
    ],
)
def test_the_checker_finds_broken_promises(broken: type[Objective], promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_objective(broken)


def test_an_unsupported_norm_must_be_refused() -> None:
    with pytest.raises(AssertionError, match="a norm that is not supported is refused"):
        check_objective(lambda model, threat: Adversarial(model, threat, steps=1), norms=("linf",))


def test_the_checker_wants_what_makes_an_objective() -> None:
    made: Any = Standard(TinyNet())
    with pytest.raises(UserError, match=r"got an objective, expected such as lambda .* Standard\(model"):
        check_objective(made)


@pytest.mark.parametrize(
    "x, y, message",
    [
        (255 * images(2), torch.zeros(2).long(), r"got pixels from .* expected \[0, 1\]"),
        ((255 * images(2)).byte(), torch.zeros(2).long(), "got torch.uint8, expected float"),
        (images(2), torch.zeros(2).int(), "labels: got torch.int32"),
        (images(2), torch.zeros(3).long(), "got 2 images and 3 labels"),
    ],
)
def test_batches_that_cannot_be_meant_are_refused_at_the_first_call(
    x: Tensor, y: Tensor, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        Adversarial(TinyNet(), Linf(0.1))(x, y)


def test_a_threat_is_no_number() -> None:
    number: Any = 8 / 255
    with pytest.raises(UserError, match=r"threat: got 0\.03"):
        Adversarial(TinyNet(), number)


class Seen(Standard):
    """Notes where the indices are that it computes with."""

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        self.seen = index
        return Output(x.sum(), x, {})


def test_an_index_from_another_device_is_taken_to_the_images() -> None:
    objective = Seen(TinyNet())
    objective(images(2), torch.tensor([0, 1]))
    with FakeTensorMode():
        # These tensors say that they are on a GPU, and have no numbers.
        x, y = torch.zeros(2, *SHAPE, device="cuda"), torch.zeros(2, dtype=torch.int64, device="cuda")
        for device in ("cpu", "cuda"):
            objective(x, y, torch.zeros(2, dtype=torch.int64, device=device), 0)
            assert objective.seen.device.type == "cuda"
        objective(x, y)
        assert objective.seen.device.type == "cuda"


def test_a_memory_answers_on_the_device_of_the_index() -> None:
    with FakeTensorMode():
        memory = Memory()
        index = torch.zeros(2, dtype=torch.int64, device="cuda")
        assert memory.table.device.type == "cpu" and memory.of(index, (3,)).device.type == "cuda"
