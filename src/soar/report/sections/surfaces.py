"""The loss around an image, on planes along the attack and along a random direction of the same size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from soar import losses, randomness
from soar.attacks import PGD
from soar.evaluation.target import Target
from soar.report.drawing.surfaces import Surface, Values, surface
from soar.report.markup import Html, join, mark, missing, section, tag
from soar.shapes import per_example
from soar.threat import Linf, Threat

if TYPE_CHECKING:
    from soar.report.content import RunContent

SURFACES = 3
REACH = 2
PER_EPS = 6
"""grid points per eps, so that 0 and the attack's end are on the grid"""
_STEPS = 20  # of the attack
_TITLES: dict[Values, str] = {"margin": "Margin", "loss": "Loss"}
_LESSON = (
    "The image is in the middle, the attack to the right of it, a random direction of the same size above."
    " In a sound network the margin falls smoothly toward the attack and hardly changes along the random"
    " direction: the gradient shows the way. Three signs of masking: the loss is flat around the image while"
    " the margin is not (the softmax is saturated, and attacks on the cross-entropy get no gradient); the"
    " surface is a patchwork of cliffs; or the random direction does as much harm as the attack."
    " Every image has its own color scale."
)


def measure_surfaces(target: Target) -> tuple[Surface, ...]:
    """Measure the loss around the first correctly classified examples of different classes.

    They are not chosen by what their surface looks like, and so are mostly the same for several runs.

    Args:
        target: the model, its examples and the threat
    """
    first: dict[int, int] = {}
    for row in target.correct.nonzero()[:, 0].tolist():
        first.setdefault(int(target.labels[row]), row)
    rows = torch.tensor(sorted(first.values())[:SURFACES], dtype=torch.int64)
    if not len(rows):
        return ()
    along = highest_margin_points(target, rows, target.threat) - target.x[rows]
    across = random_direction(along, target.threat, target.index[rows], target.seed)
    return tuple(_measure(target, int(row), *two) for row, *two in zip(rows, along, across, strict=True))


def highest_margin_points(target: Target, rows: Tensor, threat: Threat) -> Tensor:
    """Maximize the margin loss for all steps of PGD and return the best points, not the first that fool.

    Args:
        target: the model and its examples
        rows: which of them; those that are misclassified come back as they are
        threat: the ball, in place of the target's own
    """
    # No example is ever classified as a class that does not exist, so none stops at the first success.
    nowhere = torch.full((len(rows),), target.logits.shape[1])
    attack = PGD(steps=_STEPS, loss=losses.margin)
    return target.attack(attack, threat=threat, rows=rows, goal=nowhere).adversarial


def random_direction(delta: Tensor, threat: Threat, index: Tensor, seed: int) -> Tensor:
    """Draw directions as long as given ones: random signs for linf, uniform ones for l2.

    Args:
        delta: the directions to compare with
        threat: its norm measures the length
        index: identity of each example
        seed: seed of the random numbers
    """
    keys = randomness.key(seed, index, "loss surface").to(delta.device)
    draw_numbers = randomness.sign if isinstance(threat, Linf) else randomness.normal
    drawn = draw_numbers(keys, tuple(delta.shape[1:]), delta.dtype)
    return drawn * per_example(threat.norm(delta) / threat.norm(drawn), delta)


def _measure(target: Target, row: int, along: Tensor, across: Tensor) -> Surface:
    ticks = torch.arange(-REACH * PER_EPS, REACH * PER_EPS + 1).double() / PER_EPS
    columns = ticks.to(along)[:, None, None, None] * along
    # Row by row, because all points of a large image at once would not fit into memory.
    points = (target.x[row] + step * across + columns for step in ticks.tolist())
    logits = torch.cat([target.predict(one.clamp(0, 1)) for one in points]).double()
    labels = target.y[row].expand(len(logits))
    return Surface(
        index=int(target.index[row]),
        label=int(target.labels[row]),
        along=tuple(round(tick, 6) for tick in ticks.tolist()),
        margin=_rows(-losses.margin(logits, labels), len(ticks)),
        loss=_rows(losses.cross_entropy(logits, labels), len(ticks)),
    )


def _rows(values: Tensor, width: int) -> tuple[tuple[float, ...], ...]:
    """Cut a grid into rows; five digits are more than an image shows."""
    return tuple(tuple(float(f"{value:.5g}") for value in row) for row in values.reshape(-1, width).tolist())


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw the surfaces of all runs side by side, example by example."""
    indices = sorted({one.index for run in runs for one in run.surfaces})
    without = ", ".join(run.name for run in runs if not run.surfaces)
    return section(
        "surfaces",
        "The loss around an image",
        *(_example(index, runs) for index in indices),
        missing(f"No surface of {without}: no image is correctly classified.") if without else None,
        lead=_LESSON if indices else None,
    )


def _example(index: int, runs: Sequence[RunContent]) -> Html:
    """Draw the surfaces of all runs around one image.

    Each has its own scale: margins of masked networks are often so large that others would look flat beside.
    """
    found = [(k, run, one) for k, run in enumerate(runs) for one in run.surfaces if one.index == index]
    _, run, one = found[0]
    label = run.classes[one.label]
    drawn = [_pair(*each) for each in found]
    return join(tag("h3", f"Example {index}: {label}"), tag("div", *drawn, class_="slices"))


def _pair(place: int, run: RunContent, one: Surface) -> Html:
    """Draw margin and loss of one run beside each other."""
    maps = [
        tag("div", Html(surface(one, values=values, title=title)), class_="plane")
        for values, title in _TITLES.items()
    ]
    about = tag("figcaption", tag("b", run.name), " ", mark(run.verdict.kind, run.verdict.text))
    return tag("figure", about, *maps, class_="pair", data_run=place)
