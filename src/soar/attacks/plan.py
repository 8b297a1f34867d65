"""An attack together with what the protocol says about its use: on whom, and with how many samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from soar.attacks import checks
from soar.attacks.attack import Attack, require_attack


@dataclass(frozen=True)
class Planned:
    """One attack of an evaluation.

    Args:
        attack: the recipe
        survivors_only: attack only the examples that all attacks before it have left; otherwise every example
            that is classified right
        samples: how often a randomised model is asked at each point; its answers are averaged
    """

    attack: Attack[Any]
    survivors_only: bool = False
    samples: int = 1

    def __post_init__(self) -> None:
        require_attack(self.attack)
        checks.count(samples=self.samples)
