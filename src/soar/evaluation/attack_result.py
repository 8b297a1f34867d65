"""What one attack did to every example."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from soar.attacks.attack import Planned

CLEAN = "clean"
WORST = "worst case"
"""what accuracies are called besides those under single attacks"""


@dataclass(frozen=True, eq=False)
class AttackResult:
    """What one attack did, example by example."""

    label: str
    name: str
    """the attack's name in the registry, or its class"""
    parameters: dict[str, Any]
    robust: Tensor
    """whether each example is correctly classified and stayed so"""
    forward: Tensor
    """predictions spent on each example"""
    backward: Tensor
    """gradients spent on each example"""
    seconds: float = 0.0
    survivors_only: bool = False
    """whether only examples were attacked that the attacks before had left; `robust` is then what is left"""
    samples: int = 1
    """how many answers of a randomized model were averaged at every point"""
    said: Tensor | None = None
    """the class said at the point that fools the model, the label where it stayed right, and the clean
    prediction where it was wrong from the start; None where that is not known"""

    def select(self, rows: Tensor) -> AttackResult:
        """Return the same of some examples only."""
        return replace(
            self,
            robust=self.robust[rows],
            forward=self.forward[rows],
            backward=self.backward[rows],
            said=None if self.said is None else self.said[rows],
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as it is stored."""
        return {
            "label": self.label,
            "name": self.name,
            "parameters": self.parameters,
            "survivors_only": self.survivors_only,
            "samples": self.samples,
            "seconds": round(self.seconds, 3),
            "robust": bits(self.robust),
            "said": None if self.said is None else self.said.tolist(),
            "forward": self.forward.tolist(),
            "backward": self.backward.tolist(),
        }

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> AttackResult:
        """Take what `as_dict` gave."""
        tensors = {
            "robust": from_bits(stored["robust"]),
            "said": None if stored["said"] is None else whole(stored["said"]),
            "forward": whole(stored["forward"]),
            "backward": whole(stored["backward"]),
        }
        return AttackResult(**(stored | tensors))


def describe(planned: Planned) -> dict[str, Any]:
    """Return an attack's name, its numbers and the rules of its use, as they are stored.

    >>> from soar.attacks import FGSM
    >>> describe(Planned(FGSM()))["name"]
    'FGSM'
    """
    attack = planned.attack
    numbers = {one.name: getattr(attack, one.name) for one in fields(attack)}  # type: ignore[arg-type]
    plain = {
        key: value if isinstance(value, bool | int | float | str | None) else _as_text(value)
        for key, value in numbers.items()
        if not isinstance(value, nn.Module)
    }
    return {
        "name": type(attack).__name__,
        "parameters": plain,
        "survivors_only": planned.survivors_only,
        "samples": planned.samples,
    }


def bits(flags: Tensor) -> str:
    """Write flags as a line of 0 and 1, which a person can read and a diff can show.

    >>> bits(torch.tensor([True, False, True]))
    '101'
    """
    return "".join("1" if flag else "0" for flag in flags.tolist())


def from_bits(text: str) -> Tensor:
    """Take what `bits` gave."""
    return torch.tensor([character == "1" for character in text], dtype=torch.bool)


def whole(numbers: list[int]) -> Tensor:
    """Return whole numbers as a tensor, also where there are none."""
    return torch.tensor(numbers, dtype=torch.int64)


def _as_text(value: Any) -> str:
    return getattr(value, "__name__", None) or str(value)
