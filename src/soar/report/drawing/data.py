"""What a chart shows, as plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A line in a chart."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    """the lower end of the 95 % interval at each point, where there is one"""
    high: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Surface:
    """The loss on a plane through an image: along the attack and along a random direction of equal size."""

    index: int
    label: int
    along: tuple[float, ...]
    """positions in units of eps, the same along both directions; 0 is the image, 1 the attack's end"""
    margin: tuple[tuple[float, ...], ...]
    """z_y - max_{i != y} z_i at each position: rows along the random direction, columns along the attack"""
    loss: tuple[tuple[float, ...], ...]
    """the cross-entropy at the same places"""
