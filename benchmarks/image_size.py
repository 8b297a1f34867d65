"""Measure with what loss SOAR begins on images of several sizes, with and without the floor of its penalty.

    python benchmarks/image_size.py             a minute; writes results/image_size.{txt,json}
    python benchmarks/image_size.py --quick     seconds, to see that it works

An untrained ResNet-10 on random images, with SOAR's own settings. The gradient of the penalty is given as a
share of that of the cross-entropy; it is the same in both cases.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from plain_text import plain
from soar import models, randomness
from soar.environment import environment
from soar.objectives import SOAR, Objective
from soar.threat import Linf

RESULTS = Path(__file__).parent / "results"
THREAT = Linf("8/255")
SIZES = (32, 64, 128, 160)
_IMAGES, _CLASSES = 16, 10


@dataclass(frozen=True)
class Row:
    """What SOAR begins with on images of one size.

    Args:
        size: pixels of an edge
        factor: of the penalty, half of one more than the squared radius
        cross_entropy: the loss without a penalty
        with_floor: the loss with `penalty_floor`
        without_floor: the loss without it, the default
        share: norm of the penalty's gradient by the weights over that of the cross-entropy's
    """

    size: int
    factor: float
    cross_entropy: float
    with_floor: float
    without_floor: float
    share: float


def measure(size: int) -> Row:
    """Measure one size."""
    shape = (3, size, size)
    index = torch.arange(_IMAGES)
    x = randomness.uniform(randomness.key(0, index, "image size"), shape)
    y = index % _CLASSES
    model = models.build("resnet10", seed=0, image_shape=shape, options={"width": 8})

    def gradient(objective: Objective) -> tuple[float, Tensor]:
        loss = objective(x, y, index, 0).loss
        parts = torch.autograd.grad(loss, list(model.parameters()))
        return loss.item(), torch.cat([one.flatten() for one in parts])

    default = SOAR(model, THREAT)
    without, whole = gradient(default)
    with_floor, same = gradient(SOAR(model, THREAT, penalty_floor=True))
    assert torch.allclose(whole, same), "the floor has no gradient"
    alone, plain_gradient = gradient(SOAR(model, THREAT, penalty_weight=0.0))
    share = float((whole - plain_gradient).norm() / plain_gradient.norm())
    return Row(size, default.factor(x, 0), alone, with_floor, without, share)


def text(rows: Sequence[Row]) -> str:
    """Write rows as a table."""
    lines = [
        f"SOAR on an untrained ResNet-10, {THREAT}, {_IMAGES} random images: loss of the first batch",
        "size   factor   cross-entropy   with floor   without floor   share of the penalty's gradient",
    ]
    lines += [
        f"{row.size:>4}{row.factor:>9.2f}{row.cross_entropy:>16.3f}{row.with_floor:>13.3f}"
        f"{row.without_floor:>16.3f}{row.share:>34.4f}"
        for row in rows
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure all sizes, print the table and save it."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--quick", action="store_true", help="tiny images, to see that it works")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args(argv)
    rows = [measure(size) for size in ((8, 48) if arguments.quick else SIZES)]
    print(text(rows))
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "image_size.txt").write_text(plain(text(rows)))
    record = {"rows": [asdict(row) for row in rows], "environment": environment()}
    (arguments.out / "image_size.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
