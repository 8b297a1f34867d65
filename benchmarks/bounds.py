"""Measure what bounds cost: CPU seconds per image and peak memory of CROWN beside interval propagation.

    python benchmarks/bounds.py            a minute; writes results/bounds.{txt,json}
    python benchmarks/bounds.py --quick    seconds, tiny numbers, to see that it works

ResNet-10 of width 16 with batch norm and random weights, images of CIFAR-10's size, linf 1/255, one thread.
Time is the median over repeats. Memory is what the process grows by at its peak, each cell in a process of
its own. The attack is PGD-20 on the margin, which `soar certify` runs on certified images.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

import soar
from soar import models
from soar.attacks import PGD
from soar.bounds import crown_margins, propagate
from soar.environment import environment
from soar.model_state import probing
from soar.threat import Linf

RESULTS = Path(__file__).parent / "results"
THREAT = Linf("1/255")
CLASSES = 10


@dataclass(frozen=True)
class Cell:
    """One measurement: a network, a method and a batch."""

    activation: str
    method: str
    batch_size: int
    width: int = 16
    size: int = 32


@dataclass(frozen=True)
class Row:
    """What was found of a cell."""

    activation: str
    method: str
    batch_size: int
    seconds: float
    """CPU s per image"""
    megabytes: float
    """peak memory per image"""


def runner(cell: Cell) -> Callable[[], object]:
    """Return what is measured."""
    options = {"width": cell.width, "norm": "batch", "activation": cell.activation}
    shape = (3, cell.size, cell.size)
    model = models.build("resnet10", seed=0, num_classes=CLASSES, image_shape=shape, options=options).eval()
    x = torch.rand(cell.batch_size, *shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        y = model(x).argmax(dim=1)

    def intervals() -> Tensor:
        with probing(model), torch.no_grad():
            return propagate(model, x, THREAT).margins(y)

    ways: dict[str, Callable[[], object]] = {
        "IBP": intervals,
        "CROWN": lambda: crown_margins(model, x, y, THREAT),
        "PGD-20": lambda: soar.attack(model, x, y, THREAT, PGD(steps=20, loss="margin")),
    }
    return ways[cell.method]


def measure(cell: Cell, repeats: int) -> Row:
    """Measure one cell in this process."""
    torch.set_num_threads(1)
    run, times = runner(cell), []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(repeats + 1):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    seconds = statistics.median(times[1:]) / cell.batch_size
    return Row(cell.activation, cell.method, cell.batch_size, seconds, grown / cell.batch_size)


def in_its_own_process(cell: Cell, repeats: int) -> Row:
    """Measure one cell in a new process, whose memory no other cell has used."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (cell, repeats))


def text(rows: Sequence[Row]) -> str:
    """Write rows as a table."""
    lines = [f"ResNet-10, {THREAT}: per image, one thread", "activation  method  batch   CPU s     MB"]
    lines += [
        f"{row.activation:<12}{row.method:<8}{row.batch_size:>5}{row.seconds:>8.4f}{row.megabytes:>7.1f}"
        for row in rows
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure all cells, print the table and save it."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--quick", action="store_true", help="tiny numbers, to see that it works")
    parser.add_argument("--repeats", type=int, default=3, help="runs to take the median of")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args(argv)
    batches, small = ((1, 2), {"width": 8, "size": 8}) if arguments.quick else ((1, 16, 32), {})
    cells = [
        Cell(activation, method, batch, **small)
        for activation in ("relu", "silu")
        for method in ("IBP", "CROWN", "PGD-20")
        for batch in batches
    ]
    run = measure if arguments.quick else in_its_own_process
    rows = [run(cell, 1 if arguments.quick else arguments.repeats) for cell in cells]
    print(text(rows))
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "bounds.txt").write_text(text(rows) + "\n")
    record = {"rows": [asdict(row) for row in rows], "environment": environment()}
    (arguments.out / "bounds.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
