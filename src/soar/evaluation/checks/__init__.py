"""Checks for gradient masking: each looks at the attacks on a target, which are run once for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from soar.attacks import APGD, PGD, Adaptive, Attack, Square
from soar.attacks.attack import Planned
from soar.evaluation.assess import assess
from soar.evaluation.suites import describe
from soar.evaluation.target import Target
from soar.prediction import find_logits
from soar.threat import Threat

PGD_CE = PGD(steps=20)
PGD_MARGIN = PGD(steps=20, loss="margin")
# Three starts against three targets: 60 gradients each, so that only the loss differs.
APGD_CE = APGD(steps=20, restarts=3)
APGD_DLR = APGD(steps=20, loss="dlr", targets=3)

# Toward every wrong class of ten in turn, so that a way that only a targeted attack finds is found.
ADAPTIVE = Adaptive(restarts=9)
# More of what PGD does: steps, or starts.
LONGER = PGD(steps=100)
OFTENER = PGD(steps=20, restarts=5)
SQUARE = Square(queries=1000)

ON_CROSS_ENTROPY = (PGD_CE, APGD_CE)
ON_MARGINS = (PGD_MARGIN, APGD_DLR)
WHITE_BOX = (*ON_CROSS_ENTROPY, *ON_MARGINS, ADAPTIVE)


class Tempered(nn.Module):
    """A model whose logits are divided by a temperature.

    Args:
        model: any module that returns logits
        temperature: what its logits are divided by
    """

    def __init__(self, model: nn.Module, temperature: float) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, x: Tensor) -> Tensor:
        """Return the divided logits."""
        return find_logits(self.model(x)) / self.temperature


@dataclass(frozen=True)
class Tried:
    """An attack within the target's threat, and what it left.

    Args:
        label: what to call it
        name: of the attack
        parameters: its numbers and options
        robust: which examples stayed correctly classified
        is_softened: whether it looked at divided logits
    """

    label: str
    name: str
    parameters: Mapping[str, Any]
    robust: Tensor
    is_softened: bool = False


@dataclass(kw_only=True)
class SharedAttacks:
    """Attacks on one target, each run once however many checks ask for its outcome.

    Args:
        target: the model under diagnosis
        sources: other networks, by name, whose adversarial points are tried on the target
        journal: a file for what is found on the way
        features: the name of the module whose output is taken for the model's features; by default they are
            what the last layer takes
    """

    target: Target
    sources: Mapping[str, nn.Module] = field(default_factory=dict)
    journal: Path | None = None
    features: str | None = None
    tried: list[Tried] = field(default_factory=list, init=False)
    """every attack within the target's own threat so far"""
    is_random: bool = field(default=False, init=False)
    """whether the model was seen to return different outputs for one image"""
    _known: dict[Any, Tensor] = field(default_factory=dict, init=False)

    def robust(
        self, attack: Attack[Any], *, threat: Threat | None = None, temperature: float = 1.0
    ) -> Tensor:
        """Return which examples stay correctly classified under an attack, on the CPU.

        Args:
            attack: the attack
            threat: another threat than the target's
            temperature: what the logits are divided by while the attack looks at them
        """
        limits = threat or self.target.threat
        key = (repr(attack), str(limits), temperature)
        if key not in self._known:
            model = self.target.model if temperature == 1 else Tempered(self.target.model, temperature)
            target = replace(self.target, model=model, threat=limits, data_name=f"temperature {temperature}")
            found = assess(target, [Planned(attack)], journal=self.journal)
            self.is_random |= any(note.kind in ("random", "state") for note in found.notes)
            self._keep(attack, limits, temperature, found.attacks[0].robust)
            self._known[key] = found.attacks[0].robust
        return self._known[key]

    def _keep(self, attack: Attack[Any], threat: Threat, temperature: float, robust: Tensor) -> None:
        """Note what an attack left, where its threat is the target's own."""
        if str(threat) != str(self.target.threat):
            return
        used = describe(Planned(attack))
        label = attack.label if temperature == 1 else f"{attack.label} softened"
        one = Tried(label, used["name"], used["parameters"], robust, is_softened=temperature != 1)
        self.tried.append(one)

    def survivors(self, *attacks: Attack[Any]) -> Tensor:
        """Return which examples stay correctly classified under all of these attacks."""
        left = self.target.correct
        for attack in attacks:
            left = left & self.robust(attack)
        return left
