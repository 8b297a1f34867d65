"""Accuracy against eps: at which radius each example breaks under each attack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import torch

from soar.attacks import Attack
from soar.evaluation.assessment import WORST
from soar.evaluation.interval import wilson
from soar.progress import Progress as Bar
from soar.report.drawing.data import Curve
from soar.report.exhibits.subject import Subject
from soar.threat import Linf, Threat

FACTORS = tuple(Fraction(quarters, 4) for quarters in range(1, 9))
"""radii in units of eps"""


@dataclass(frozen=True, kw_only=True)
class Breaks:
    """At which radius each example breaks, as a position in the list of radii, of which the first is 0."""

    radii: int
    tried: dict[str, int]
    """how many radii each attack has tried; 1 is the clean image"""
    at: dict[str, tuple[int, ...]]
    """for each attack and example the smallest radius at which it is wrong; `radii` where it holds at all"""

    @property
    def first(self) -> tuple[int, ...]:
        """Where each example breaks under whichever attack breaks it first."""
        return tuple(min(positions) for positions in zip(*self.at.values(), strict=True))


def threats(threat: Threat) -> list[Threat]:
    """Return the threats from a quarter of eps to twice eps; linf ends at 1, where every image is allowed.

    >>> [str(one) for one in threats(Linf("0.8"))]
    ['linf 0.2', 'linf 0.4', 'linf 0.6', 'linf 0.8', 'linf 1']
    """
    sizes = [threat.eps * factor for factor in FACTORS]
    if isinstance(threat, Linf):
        sizes = sorted({min(size, Fraction(1)) for size in sizes})
    return [replace(threat, eps=size) for size in sizes]


def measure(
    subject: Subject,
    attacks: Sequence[Attack[Any]],
    *,
    known: Breaks | None = None,
    keep: Callable[[Breaks], None] = lambda _: None,
) -> Breaks:
    """Attack with growing radii; what breaks within a radius is not attacked within a larger one.

    A point inside a ball is inside every larger ball, so accuracy falls with eps whatever an attack does, and
    most passes are saved.

    Args:
        subject: the model, its examples and the threat whose eps is in the middle
        attacks: recipes, each of which is run alone
        known: what an earlier call has kept
        keep: takes what is known after every radius
    """
    balls, count = threats(subject.threat), len(subject.split)
    found = known or Breaks(radii=len(balls) + 1, tried={}, at={})
    done = sum(tried - 1 for tried in found.tried.values()) * count
    with Bar(len(attacks) * len(balls) * count, "accuracy against eps", subject.progress, done=done) as bar:
        for attack in attacks:
            tried = found.tried.get(attack.label, 1)
            for position, ball in enumerate(balls[tried - 1 :], tried):
                found = _widen(subject, attack, ball, position, found)
                keep(found)
                bar.advance(count, attack=attack.label, eps=str(ball))
    return found


def curves(found: Breaks, threat: Threat) -> tuple[Curve, ...]:
    """Draw the share of examples that hold at each radius, with the 95% interval; the worst case last.

    Args:
        found: where examples break
        threat: whose eps is in the middle
    """
    x = (0.0, *(ball.radius for ball in threats(threat)))
    return tuple(_curve(label, x, at) for label, at in {**found.at, WORST: found.first}.items())


def _curve(label: str, x: tuple[float, ...], at: tuple[int, ...]) -> Curve:
    held = [sum(position > radius for position in at) for radius in range(len(x))]
    limits = [wilson(count, len(at)) for count in held]
    return Curve(
        label=label,
        x=x,
        y=tuple(count / max(1, len(at)) for count in held),
        low=tuple(low for low, _ in limits),
        high=tuple(high for _, high in limits),
    )


def _widen(subject: Subject, attack: Attack[Any], ball: Threat, position: int, found: Breaks) -> Breaks:
    """Attack within one more radius what has held so far."""
    never = torch.where(subject.correct, found.radii, 0).tolist()
    at = torch.tensor(found.at.get(attack.label, never))
    rows = (at == found.radii).nonzero()[:, 0]
    outcomes = subject.attack(attack, ball, rows)
    at[rows[~outcomes.robust.cpu()]] = position
    return replace(
        found,
        tried={**found.tried, attack.label: position + 1},
        at={**found.at, attack.label: tuple(at.tolist())},
    )
