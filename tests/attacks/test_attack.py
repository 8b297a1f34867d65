from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from soar import losses
from soar.attacks import APGD, FAB, PGD, Answer, Attack, Examples, Planned, SimBA, Square, check_attack
from soar.attacks.transfer import ShownState
from soar.errors import UserError
from soar.threat import Threat


@pytest.mark.parametrize("value", [2.5, "20", None, [1]])
@pytest.mark.parametrize(
    "build, name",
    [
        (PGD, "steps"),
        (PGD, "targets"),
        (APGD, "restarts"),
        (FAB, "steps"),
        (Square, "queries"),
        (SimBA, "queries"),
    ],
)
def test_half_a_step_and_text_are_refused(build: Any, name: str, value: Any) -> None:
    with pytest.raises(UserError) as told:
        build(**{name: value})
    assert str(told.value) == f"attack.{name}: got {value!r}, expected a whole number"


def test_whole_numbers_of_other_libraries_will_do() -> None:
    assert PGD(steps=np.int64(3)).steps == 3  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"attack\.samples: got 0, expected at least 1"):
        Planned(PGD(), samples=0)


@dataclass(frozen=True)
class Noise(Attack[ShownState]):
    """One random point, with no more than what has no default."""

    label: str = "noise"
    budget: int = 1

    def start(self, examples: Examples, threat: Threat) -> ShownState:
        points = threat.random_start(examples.x, examples.keys("noise"))
        return ShownState(examples, points, torch.zeros_like(examples.labels, dtype=torch.bool))

    def score(self, logits: Tensor, state: ShownState) -> Tensor:
        return losses.margin(logits, state.examples.labels)

    def update(self, state: ShownState, answer: Answer, threat: Threat) -> ShownState:
        assert answer.gradient is None
        return replace(state, shown=torch.ones_like(state.shown))

    def exhausted(self, state: ShownState) -> Tensor:
        return state.shown


def test_a_subclass_inherits_what_most_attacks_have_in_common() -> None:
    attack = Noise()
    assert attack.stays_inside and not attack.starts_at_image and attack.entries(classes=10) == 1
    check_attack(attack)
