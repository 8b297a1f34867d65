"""Measure how many images an objective trains on while N-FGSM trains on one, in the stack of `cifar10-fast`.

    python benchmarks/pace.py             minutes; writes results/pace.{txt,json}
    python benchmarks/pace.py --quick     seconds, to see that it works

The arms of `soar study frontier` make whole updates in turns, optimizer included, in one process and one
thread. Each round gives the ratio of N-FGSM's CPU time to an arm's, and the median over the rounds counts: a
ratio holds on other machines, too, and on a busy one. The study turns it into the number of epochs that a
CPU minute of an arm is worth, on a machine that trains N-FGSM at `IMAGES_PER_SECOND`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import torch

from plain_text import plain
from soar import randomness
from soar.data import Batch
from soar.distributed import World
from soar.environment import environment
from soar.experiments.loading import load
from soar.recipes import Recipe
from soar.runs import Run
from soar.training.updates import Updates

RESULTS = Path(__file__).parent / "results"
REFERENCE = "N-FGSM"
IMAGES_PER_SECOND = 560
"""of N-FGSM on the machine whose minutes are counted; one thread that multiplies bfloat16"""
EPOCH = 49_000
_SHAPE, _CLASSES = (3, 32, 32), 10


class Pace(NamedTuple):
    """The pace of an arm: images in the time of one of N-FGSM, and milliseconds of an update."""

    arm: str
    ratio: float
    milliseconds: float

    def epochs(self, minutes: float) -> float:
        """Return the epochs of CIFAR-10 that these CPU minutes of the counted machine are worth."""
        return round(60 * minutes * IMAGES_PER_SECOND * self.ratio / EPOCH, 2)


def arms() -> dict[str, Recipe]:
    """Return one recipe for each arm of the frontier, N-FGSM first."""
    experiment = load("frontier")
    found: dict[str, Recipe] = {}
    for row in experiment.rows:
        if row.network:
            found.setdefault(row.name.rpartition(" / ")[2], experiment.networks[row.network].recipe)
    return {REFERENCE: found.pop(REFERENCE), **found}


def measure(recipes: dict[str, Recipe], rounds: int) -> list[Pace]:
    """Measure updates of all arms in turns, after two of each that warm up caches."""
    updates = {arm: _updates(recipe) for arm, recipe in recipes.items()}
    size = recipes[REFERENCE].training.batch_size
    index = torch.arange(size)
    images = randomness.uniform(randomness.key(0, index, "bench"), _SHAPE)
    batch = Batch(images, index % _CLASSES, index)
    times: dict[str, list[float]] = {arm: [] for arm in updates}
    for step in range(rounds + 2):
        for arm, update in updates.items():
            began = time.process_time()
            update.prepare(step)
            figures = update.backward(batch, step)
            update.apply(step, float(figures["grad_norm"]))
            times[arm].append(time.process_time() - began)
    reference = times[REFERENCE][2:]
    return [
        Pace(
            arm,
            statistics.median(one / mine for one, mine in zip(reference, spent[2:], strict=True)),
            1000 * statistics.median(spent[2:]),
        )
        for arm, spent in times.items()
    ]


def _updates(recipe: Recipe) -> Updates:
    run = Run(Path(), recipe)
    objective = run.objective(run.model(_CLASSES, _SHAPE))
    objective.train()
    steps = EPOCH // recipe.training.batch_size
    return Updates(objective, recipe.training, steps, device=torch.device("cpu"), world=World())


def table(found: list[Pace]) -> str:
    """Return the paces as a plain table, with the epochs that ten minutes are worth."""
    width = max(len(one.arm) for one in found)
    lines = [f"{'training':{width}}  images / N-FGSM   ms   epochs in 10 min"]
    lines += [
        f"{one.arm:{width}}  {one.ratio:15.3f} {one.milliseconds:4.0f} {one.epochs(10):18.2f}"
        for one in sorted(found, key=lambda one: -one.ratio)
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description="Measure the pace of every arm of the frontier.")
    parser.add_argument("--quick", action="store_true", help="one round of two arms, nothing saved")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    recipes = arms()
    if arguments.quick:
        print(table(measure(dict(list(recipes.items())[:2]), rounds=1)))
        return
    found = measure(recipes, rounds=15)
    print(table(found))
    record = {
        "environment": environment(),
        "images_per_second": IMAGES_PER_SECOND,
        "paces": [one._asdict() for one in found],
    }
    (RESULTS / "pace.txt").write_text(plain(table(found)))
    (RESULTS / "pace.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
