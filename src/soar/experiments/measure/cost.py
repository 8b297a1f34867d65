"""What a training step costs, and numbers of the paper's theory: both without test images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from soar.cost import Counter
from soar.cost.step import measure_steps
from soar.cost.workload import Workload, build
from soar.experiments.measure.task import Found, Task
from soar.theory import Rows, linear_regression, logistic_regression, proposition_1

PASSES = ("forward", "backward")
RATIO = "relative to"
"""what a ratio of times is called, with the name of PGD-10 training behind it"""
REFERENCE = "adversarial:steps=10"
_EPOCH = 50_000
"""training images of CIFAR-10"""
_FEW = 4
_REPEATS = 5
_RADIUS = 3.0

PARTS: dict[str, Callable[[], Rows]] = {
    "linear": linear_regression.table,
    "expansions": linear_regression.expansions,
    "logistic": lambda: logistic_regression.table(_RADIUS),
    "proposition": lambda: [proposition_1.counterexample(3072, 8 / 255)],
}


def cost(task: Task) -> Found:
    """Return passes of a step, minutes of an epoch, or the time relative to PGD-10; on one CPU thread.

    Args:
        task: options name the objective, the network and what is measured; without them, those of the
            network's recipe
    """
    options = task.options
    if "objective" not in options:
        options |= _of_recipe(task)
    what, text = options["what"], options["objective"]
    workload = Workload(
        name="cost",
        model=options["model"],
        options=tuple(sorted(options["options"].items())),
        image_shape=tuple(options.get("image_shape", (3, 32, 32))),
        # Passes are the same for any batch.
        batch_size=_FEW if what in PASSES else options["batch_size"],
    )
    if what in PASSES:
        return Found(float(_passes(text, workload)[PASSES.index(what)]))
    names = list(dict.fromkeys([REFERENCE, text] if what.startswith(RATIO) else [text]))
    threads = torch.get_num_threads()
    try:
        found = measure_steps(names, workload, repeats=options["repeats"], memory=False)
    finally:
        torch.set_num_threads(threads)
    costs = {one.objective: one for one in found}
    if what.startswith(RATIO):
        return Found(costs[text].time_ratio(costs[REFERENCE]))
    return Found(costs[text].seconds * _EPOCH / workload.batch_size / 60)


def theory(task: Task) -> Found:
    """Return a column of the one row that has the given entries, over another column where one is named.

    Args:
        task: options name the part of the theory, the row and the column
    """
    options = task.options
    rows = PARTS[options["part"]]()
    where = options["where"].items()
    (row,) = [row for row in rows if all(row[key] == value for key, value in where)]
    value = float(row[options["column"]])
    return Found(value / float(row[options["over"]]) if "over" in options else value)


def _of_recipe(task: Task) -> dict[str, Any]:
    """Return the options that measure a training step of the task's own network."""
    recipe = task.run.recipe
    objective = [f"{key}={value}" for key, value in recipe.objective.items() if key != "name"]
    return {
        "objective": f"{recipe.objective['name']}:{','.join(objective)}".rstrip(":"),
        "model": recipe.model["name"],
        "options": {key: value for key, value in recipe.model.items() if key != "name"},
        "image_shape": task.target.stored.shape[1:],
        "batch_size": recipe.training.batch_size,
        "repeats": _REPEATS,
    }


def _passes(text: str, workload: Workload) -> tuple[int, int]:
    """Count as the paper does: the gradient for the parameters is one pass, at however many points."""
    objective, x, y = build(text, workload)
    with Counter(objective.model) as counter:
        objective(x, y, torch.arange(len(y), device="cpu"), 0)
    return counter.forwards, counter.backwards + 1
