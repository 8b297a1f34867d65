"""Estimate training runs on hardware that is not here, by the cost model of `soar train --plan`.

    python benchmarks/scale.py           a minute; prints the table of docs/guides/scale.md, and writes it
                                         to docs/results/scale.txt and scale.json

Passes and operations are counted by one real update on two images of the true shape, which are black, so that
no dataset need be here. The first two rows take the rate that the real training with SOAR of
docs/results/plan.json had on one core of this machine, in CPU time; all others assume RATE in each process
and a free exchange of gradients. They are estimates and no measurements.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from plain_text import plain
from soar import recipes
from soar.cost.training import TrainingCost, count_training
from soar.data import Dataset, Split
from soar.runs import Run
from soar.training.prepare import prepare

RESULTS = Path(__file__).parent.parent / "docs" / "results"
RATE = 10.0
"""TFLOP/s of a process: half of the 19.5 that an A100 has in float32, which SOAR needs"""
RESNET_50 = 2 * 4.09e9
"""operations of a forward pass of ResNet-50 at 224 x 224, from the literature"""


@dataclass(frozen=True, kw_only=True)
class Imagined(Run):
    """A run whose data are black images, as many as there really are."""

    shape: tuple[int, int, int]
    classes: int
    images: int
    held_out: int

    def data(self, root: Path | None = None) -> Dataset:  # noqa: ARG002
        """Return data that take no memory, however many they are."""
        names = tuple(str(number) for number in range(self.classes))
        return Dataset(
            self.recipe.data.name, names, self.shape, *map(self._split, (self.images, self.held_out, 1))
        )

    def _split(self, size: int) -> Split:
        pixels = torch.zeros(1, *self.shape, dtype=torch.uint8).expand(size, -1, -1, -1)
        return Split(pixels, torch.zeros(size, dtype=torch.int64), torch.arange(size))


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    task: str
    hardware: str
    cost: TrainingCost
    data_bytes: float

    def record(self) -> dict[str, object]:
        """Return the numbers of the line."""
        assert self.cost.seconds is not None
        update = self.cost.updates[0]
        return {
            "task": self.task,
            "hardware": self.hardware,
            "processes": self.cost.processes,
            "updates": self.cost.number,
            "passes": [update.forwards, update.backwards],
            "petaflop": self.cost.flop / 1e15,
            "seconds": self.cost.seconds,
            "exchanged_bytes": self.cost.exchanged,
            "data_bytes": self.data_bytes,
        }


def counted(
    recipe: str, flags: list[str], shape: tuple[int, int, int], images: int, *, classes: int = 10
) -> TrainingCost:
    """Count the work of a recipe on so many images of a shape.

    Args:
        recipe: a name of `soar list recipes`
        flags: that change it
        shape: of an image
        images: to learn from
        classes: how many there are
    """
    # The work does not depend on the weights that a training starts from.
    wanted = recipes.load(recipe, [*flags, "--start_from", "null"])
    made = Imagined(Path("nowhere"), wanted, shape=shape, classes=classes, images=images, held_out=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return count_training(prepare(made, progress="quiet"))


def table() -> list[Row]:
    """Work out every line."""
    measured = json.loads((RESULTS / "plan.json").read_text())["rows"]
    (soar,) = (row for row in measured if row["case"] == "SOAR")
    core = soar["gflop"] / soar["real_cpu"] / 1000
    demo = counted("demo-soar", [], (1, 28, 28), 9_000)
    small = counted("cifar10-soar-small", [], (3, 32, 32), 45_000)
    paper = counted("cifar10-soar", [], (3, 32, 32), 45_000)
    large = ["--batch_size", "1024", "--epochs", "90", "--schedule", "one-cycle", "--milestones", "[]"]
    of_64 = ["--model", "resnet18", "--validation.steps", "10", *large]
    imagenet = counted("cifar10-soar", of_64, (3, 64, 64), 1_281_167, classes=1000)
    # The cost of an update in forward passes hardly depends on the network, so that of ResNet-10 is taken.
    (update,) = paper.updates
    forward = counted("cifar10-standard", [], (3, 32, 32), 45_000).updates[0].flop / 3 / update.images
    passes = update.flop / update.images / forward
    (of_1024,) = imagenet.updates
    larger = replace(of_1024, flop=of_1024.images * passes * RESNET_50)
    full = replace(imagenet, updates=(larger,), validation=None, parameters=25_557_032)

    def row(task: str, hardware: str, cost: TrainingCost, processes: int, rate: float, size: float) -> Row:
        return Row(task, hardware, replace(cost, processes=processes).at_rate(rate), size)

    small_images, large_images = 50_000 * 3 * 32**2, 1_281_167 * 3 * 64**2
    return [
        row("demo-soar", "1 core here", demo, 1, core, 10_000 * 28**2),
        row("cifar10-soar-small", "1 core here", small, 1, core, small_images),
        row("cifar10-soar", "1 GPU", paper, 1, RATE, small_images),
        row("cifar10-soar", "8 GPUs", paper, 8, RATE, small_images),
        row("ImageNet 64 x 64, ResNet-18", "8 GPUs", imagenet, 8, RATE, large_images),
        row("ImageNet 64 x 64, ResNet-18", "64 GPUs", imagenet, 64, RATE, large_images),
        row("ImageNet 224 x 224, ResNet-50", "64 GPUs", full, 64, RATE, 1_281_167 * 3 * 224**2),
    ]


def show(rows: list[Row]) -> Table:
    """Lay the lines out."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("training", no_wrap=True)
    shown.add_column("hardware", no_wrap=True)
    for heading in ("updates", "fwd", "bwd", "PFLOP", "time", "MiB sent", "GiB of data"):
        shown.add_column(heading, justify="right")
    for row in rows:
        update = row.cost.updates[0]
        assert row.cost.seconds is not None
        shown.add_row(
            row.task,
            row.hardware,
            f"{row.cost.number:,}",
            str(update.forwards),
            str(update.backwards),
            f"{row.cost.flop / 1e15:,.{0 if row.cost.flop > 1e18 else 3}f}",
            f"{row.cost.seconds / 3600:.2g} h",
            f"{row.cost.exchanged / 2**20:.3g}",
            f"{row.data_bytes / 2**30:.3g}",
        )
    return shown


def main() -> None:
    """Print the table and keep it."""
    torch.set_num_threads(1)
    rows = table()
    console = Console(record=True, width=120)
    console.print(show(rows))
    record = {"tflops_assumed": RATE, "rows": [row.record() for row in rows]}
    (RESULTS / "scale.json").write_text(json.dumps(record, indent=1) + "\n")
    (RESULTS / "scale.txt").write_text(plain(console.export_text()))


if __name__ == "__main__":
    main()
