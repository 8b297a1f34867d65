"""Measure what the trainer costs beside a bare loop: same model, data, augmentation and optimizer.

    python benchmarks/trainer.py            minutes; writes benchmarks/results/trainer.json
    python benchmarks/trainer.py --quick    seconds, tiny numbers, to see that it works

The bare loop is what anyone would write: set the rate, take a batch, `backward`, `step`. It measures no
gradient norm, writes no metrics, shows no progress and watches for nothing. The trainer does all of that.
Both make their updates in turn in one process and one thread, so that whatever else the machine does hits
both alike. Each pair of updates gives a ratio, and the median over all pairs after a few of warm-up counts:
of CPU time of the training thread, which neighbors on the machine disturb least, and of wall-clock time.
Validation and checkpoints are left out: they cost what they cost, as often as one asks for them.

The share of the data is the time in which the bare loop waits for the next batch, with one worker thread that
prepares batches ahead, and without any.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table

from soar import data, models
from soar.data import Augmentation, Batch, Dataset, Split, training_batches
from soar.environment import environment
from soar.objectives import OBJECTIVES, Objective
from soar.recipes.settings import TrainingSettings
from soar.threat import Linf
from soar.training.schedules import lr_factor
from soar.training.trainer import Trainer

RESULTS = Path(__file__).parent / "results"
GOAL = 1.03
WARM_UP = 5
AUGMENTATION = Augmentation(crop_padding=4, flip=True)


@dataclass(frozen=True)
class Case:
    """What is trained; the cheaper an update, the more the trainer's own work shows."""

    objective: str
    model: str
    options: dict[str, Any]
    batch_size: int
    updates: int


CASES = (
    Case("standard", "cnn6", {"width": 8}, 128, 600),
    Case("standard", "resnet10", {"width": 16}, 128, 100),
    Case("adversarial", "resnet10", {"width": 16}, 128, 20),
)
QUICK = (Case("standard", "cnn6", {"width": 4}, 16, 12),)


@dataclass(frozen=True)
class Timing:
    """Medians over the updates of a case; times in milliseconds."""

    cpu_ratio: float
    wall_ratio: float
    bare_cpu: float
    bare_wall: float
    waiting: float
    preparing: float


class Moment(NamedTuple):
    """What the clocks say, or how much later one moment is than another, in seconds."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Moment:
        """Read both clocks."""
        return cls(time.perf_counter(), time.thread_time())

    def since(self, other: Moment) -> Moment:
        """Return the difference to an earlier moment."""
        return Moment(self.wall - other.wall, self.cpu - other.cpu)


class BareLoop:
    """The loop that needs no library, made to stop after every update."""

    def __init__(self, objective: Objective, split: Split, settings: TrainingSettings) -> None:
        self.objective, self.split, self.settings = objective, split, settings
        self.per_epoch = len(split) // settings.batch_size
        self.optimizer = torch.optim.SGD(
            objective.parameters(),
            lr=settings.lr,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )
        objective.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.batches = all_batches(split, settings)
        self.step = 0

    def update(self) -> tuple[Moment, Moment]:
        """Make one update; give the time it took and that of waiting for the batch."""
        began = Moment.now()
        lr = self.settings.lr * lr_factor(self.settings, self.step, self.per_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad()
        x, y, index = next(self.batches).on()
        waited = Moment.now().since(began)
        x = x.to(memory_format=torch.channels_last)
        self.objective(x, y, index, self.step).loss.backward()
        self.optimizer.step()
        self.step += 1
        return Moment.now().since(began), waited


class Alternating:
    """A sink that lets the bare loop make an update after each one of the trainer, and times both."""

    def __init__(self, bare: BareLoop) -> None:
        self.bare = bare
        self.updates: list[tuple[Moment, Moment, Moment]] = []
        self._resumed: Moment | None = None

    def log(self, step: int, row: Mapping[str, float | str]) -> None:  # noqa: ARG002
        """Stop the trainer's watch, make a bare update, and start the watch again."""
        trainer = Moment.now()
        bare, waited = self.bare.update()
        if self._resumed is not None:
            self.updates.append((trainer.since(self._resumed), bare, waited))
        self._resumed = Moment.now()

    def close(self) -> None:
        """Nothing is open."""


def all_batches(split: Split, settings: TrainingSettings) -> Iterator[Batch]:
    """Return batches without end."""
    for epoch in count():
        yield from training_batches(
            split,
            batch_size=settings.batch_size,
            seed=0,
            epoch=epoch,
            augmentation=AUGMENTATION,
            num_workers=settings.num_workers,
        )


def measure(case: Case, found: Dataset, run: Path) -> Timing:
    """Train both in turn and take the medians."""
    settings = TrainingSettings(
        epochs=10_000, batch_size=case.batch_size, lr=0.01, max_steps=case.updates, save_minutes=1e6
    )
    first, second = (build(case, found) for _ in range(2))
    watch = Alternating(BareLoop(first, found.train, settings))
    nothing = found.validation.first(0)
    learned = Dataset(found.name, found.classes, found.shape, found.train, nothing, found.test)
    Trainer(
        *(second, learned, settings), run=run, augmentation=AUGMENTATION, sinks=[watch], progress="plain"
    ).fit()
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(one, other, msg="both loops must train the same model")
    trainer, bare, waited = zip(*watch.updates[WARM_UP:], strict=True)
    return Timing(
        cpu_ratio=median(one.cpu / other.cpu for one, other in zip(trainer, bare, strict=True)),
        wall_ratio=median(one.wall / other.wall for one, other in zip(trainer, bare, strict=True)),
        bare_cpu=1000 * median(moment.cpu for moment in bare),
        bare_wall=1000 * median(moment.wall for moment in bare),
        waiting=1000 * median(moment.wall for moment in waited),
        preparing=preparation(found.train, settings),
    )


def build(case: Case, found: Dataset) -> Objective:
    """Make an objective with its own copy of the model."""
    model = models.build(
        case.model,
        seed=0,
        num_classes=len(found.classes),
        image_shape=found.shape,
        options=case.options,
    )
    return OBJECTIVES.build(case.objective, {}, model, Linf("8/255"))


def preparation(split: Split, settings: TrainingSettings) -> float:
    """Return the milliseconds that one batch takes when nothing is prepared ahead."""
    options: dict[str, Any] = {"batch_size": settings.batch_size, "augmentation": AUGMENTATION}
    began = time.perf_counter()
    number = sum(1 for _ in training_batches(split, seed=0, epoch=0, num_workers=0, **options))
    return 1000 * (time.perf_counter() - began) / number


def show(timings: list[tuple[Case, Timing]]) -> None:
    table = Table("case", "bare ms", "CPU ratio", "wall ratio", "waits for data", "data, no worker")
    for case, timing in timings:
        table.add_row(
            f"{case.objective}, {case.model} width {case.options['width']}, batch {case.batch_size}",
            f"{timing.bare_wall:.1f}",
            f"{timing.cpu_ratio:.3f}",
            f"{timing.wall_ratio:.3f}",
            f"{timing.waiting / timing.bare_wall:.1%}",
            f"{timing.preparing / timing.bare_wall:.1%}",
        )
    console = Console()
    console.print(table)
    worst = max(timing.cpu_ratio for _, timing in timings)
    console.print(f"worst CPU ratio {worst:.3f}, goal at most {GOAL}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tiny case, to see that it works")
    parser.add_argument("--output", type=Path, help="where to write the JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = data.load("fashion-mnist-sample")
    timings = []
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(QUICK if arguments.quick else CASES):
            timings.append((case, measure(case, found, Path(folder) / str(number))))
    show(timings)
    output = arguments.output or (None if arguments.quick else RESULTS / "trainer.json")
    if output is not None:
        cases = [{"case": asdict(case), "timing": asdict(timing)} for case, timing in timings]
        output.parent.mkdir(parents=True, exist_ok=True)
        record = {"cases": cases, "goal": GOAL, "environment": environment()}
        output.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
