"""The gallery: a few images, what attacks make of them as eps grows, and what the model says of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from soar import epsilon, losses
from soar.report.content import Frame, Specimen
from soar.report.exhibits.eps_curve import Breaks, threats
from soar.report.exhibits.pictures import change, png
from soar.report.exhibits.subject import Subject, strongest

SPECIMENS = 6


def gallery(subject: Subject, breaks: Breaks) -> tuple[Specimen, ...]:
    """Show images from the most fragile to the sturdiest within growing radii.

    Args:
        subject: the model, its examples and the threat
        breaks: where those examples break
    """
    rows = torch.tensor(choose(breaks.first, subject.labels.tolist()), dtype=torch.int64)
    if not len(rows):
        return ()
    sizes = ["0", *(epsilon.show(ball.eps) for ball in threats(subject.threat))]
    points = _trail(subject, rows)
    likely = subject.ask(points.flatten(0, 1)).double().softmax(dim=1).reshape(*points.shape[:2], -1)
    return tuple(
        _specimen(subject, int(row), sizes, points[:, place], likely[:, place])
        for place, row in enumerate(rows)
    )


def choose(first: Sequence[int], labels: Sequence[int], count: int = SPECIMENS) -> list[int]:
    """Choose examples that are right at first, evenly from those that break at once to those that hold.

    Among equals the classes not shown yet come first, then the order of the data. So the most fragile example
    and the sturdiest are always there.

    Args:
        first: at which radius each example breaks; 0 for the clean image
        labels: their classes
        count: how many to choose

    >>> choose([0, 1, 1, 9, 4, 1], [0, 0, 1, 2, 2, 0], count=3)
    [1, 2, 3]
    """
    ranked = sorted((row for row, at in enumerate(first) if at > 0), key=lambda row: (first[row], row))
    count = min(count, len(ranked))
    chosen: list[int] = []
    for place in range(count):
        wanted = first[ranked[round(place * (len(ranked) - 1) / max(1, count - 1))]]
        equals = [row for row in ranked if first[row] == wanted and row not in chosen]
        shown = {labels[row] for row in chosen}
        chosen.append(next((row for row in equals if labels[row] not in shown), equals[0]))
    return chosen


def _trail(subject: Subject, rows: Tensor) -> Tensor:
    """Return the worst point within every radius, the image first; shape (radii, examples, image)."""
    labels = subject.labels[rows]
    trail = [subject.x[rows]]
    highest = losses.margin(subject.logits[rows], labels)
    for ball in threats(subject.threat):
        points = strongest(subject, rows, ball)
        height = losses.margin(subject.ask(points), labels)
        # What was found within a smaller radius is allowed within this one too.
        is_worse = height > highest
        trail.append(torch.where(is_worse[:, None, None, None], points, trail[-1]))
        highest = torch.where(is_worse, height, highest)
    return torch.stack(trail)


def _specimen(subject: Subject, row: int, sizes: list[str], points: Tensor, likely: Tensor) -> Specimen:
    moved = points - subject.x[row]
    largest = float(moved.abs().max())
    # The largest change of a pixel just fills the range, so that no frame is cut off.
    factor = 127 / 255 / largest if largest > 0 else 1.0
    frames = [
        Frame(
            eps=size,
            image=png(point),
            perturbation=change(delta, factor),
            probabilities=tuple(round(share, 5) for share in shares.tolist()),
        )
        for size, point, delta, shares in zip(sizes, points, moved, likely, strict=True)
    ]
    return Specimen(
        index=int(subject.split.indices[row]),
        label=int(subject.split.labels[row]),
        magnified=factor,
        frames=tuple(frames),
    )
