from __future__ import annotations

import pytest
import torch
from torch import Tensor

from soar.objectives import OBJECTIVES, Adversarial, Objective, Output, Standard, check_objective
from soar.registry import Entry


@pytest.mark.parametrize("entry", list(OBJECTIVES), ids=lambda entry: entry.name)
def test_every_objective_keeps_the_contract(entry: Entry[Objective]) -> None:
    check_objective(entry.build)


@pytest.mark.parametrize("entry", list(OBJECTIVES), ids=lambda entry: entry.name)
def test_every_objective_is_described(entry: Entry[Objective]) -> None:
    assert entry.description.endswith(".") and len(entry.description) > 20


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
