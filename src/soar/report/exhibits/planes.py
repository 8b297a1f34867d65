"""The loss on planes through images: along the attack, and along a random direction of the same size."""

from __future__ import annotations

import torch
from torch import Tensor

from soar import losses, randomness
from soar.report.drawing.data import Surface
from soar.report.exhibits.subject import Subject, strongest
from soar.shapes import per_example
from soar.threat import Linf, Threat

SURFACES = 3
REACH = 2
PER_EPS = 6
"""grid points for every eps, so that 0 and the attack's end are on the grid"""


def surfaces(subject: Subject) -> tuple[Surface, ...]:
    """Measure the loss around the first examples of different classes that are correctly classified.

    They are not chosen by what their surface looks like, and so are mostly the same for several runs.

    Args:
        subject: the model, its examples and the threat
    """
    rows = _first_of_classes(subject)
    if not len(rows):
        return ()
    along = attack_direction(subject, rows)
    across = random_direction(along, subject.threat, subject.split.indices[rows], subject.seed)
    return tuple(_surface(subject, int(row), *two) for row, *two in zip(rows, along, across, strict=True))


def attack_direction(subject: Subject, rows: Tensor) -> Tensor:
    """Return where PGD ends: climbing the margin or the cross-entropy, whichever comes further.

    Args:
        subject: the model, its examples and the threat
        rows: which of them
    """
    ends = [strongest(subject, rows, subject.threat, loss) for loss in (losses.margin, losses.cross_entropy)]
    heights = [losses.margin(subject.ask(points), subject.labels[rows]) for points in ends]
    return torch.where(per_example(heights[1] > heights[0], ends[0]), ends[1], ends[0]) - subject.x[rows]


def random_direction(delta: Tensor, threat: Threat, index: Tensor, seed: int) -> Tensor:
    """Draw directions as long as given ones: random signs for linf, uniform ones for l2.

    Args:
        delta: the directions to compare with
        threat: whose norm measures the length
        index: identity of each example
        seed: of the random numbers
    """
    keys = randomness.key(seed, index, "loss surface").to(delta.device)
    draw = randomness.sign if isinstance(threat, Linf) else randomness.normal
    drawn = draw(keys, tuple(delta.shape[1:]), delta.dtype)
    return drawn * per_example(threat.norm(delta) / threat.norm(drawn), delta)


def _first_of_classes(subject: Subject) -> Tensor:
    rows: dict[int, int] = {}
    for row in subject.correct.nonzero()[:, 0].tolist():
        rows.setdefault(int(subject.split.labels[row]), row)
    return torch.tensor(sorted(rows.values())[:SURFACES], dtype=torch.int64)


def _surface(subject: Subject, row: int, along: Tensor, across: Tensor) -> Surface:
    ticks = torch.arange(-REACH * PER_EPS, REACH * PER_EPS + 1).double() / PER_EPS
    columns = ticks.to(along)[:, None, None, None] * along
    # Row by row, because all points of a large image at once would not fit.
    grid = (subject.x[row] + step * across + columns for step in ticks.tolist())
    logits = torch.cat([subject.ask(points.clamp(0, 1)) for points in grid]).double()
    labels = subject.labels[row].expand(len(logits))
    return Surface(
        index=int(subject.split.indices[row]),
        label=int(subject.split.labels[row]),
        along=tuple(round(tick, 6) for tick in ticks.tolist()),
        margin=_rows(-losses.margin(logits, labels), len(ticks)),
        loss=_rows(losses.cross_entropy(logits, labels), len(ticks)),
    )


def _rows(values: Tensor, width: int) -> tuple[tuple[float, ...], ...]:
    """Cut a grid into rows; five digits are more than a picture shows."""
    return tuple(tuple(float(f"{value:.5g}") for value in row) for row in values.reshape(-1, width).tolist())
