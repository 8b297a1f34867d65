"""What a training step of each arm costs, relative to PGD-10 on the same network."""

from __future__ import annotations

from dataclasses import replace

import torch

from soar.cost.step import measure_steps
from soar.cost.workload import Workload
from soar.studies.findings import Finding

REFERENCE = "adversarial:steps=10"


def step_costs(rows: list[Finding], shape: tuple[int, int, int], *, repeats: int = 5) -> list[Finding]:
    """Measure one step of every arm in turns, on one thread.

    Args:
        rows: the findings so far; arms that have the network of the first row are measured
        shape: of an image
        repeats: steps to take the median of
    """
    model = next((row.recipe["model"] for row in rows if row.recipe), None)
    if model is None:
        return rows
    texts = {row.arm: _text(row.recipe["objective"]) for row in rows if row.recipe.get("model") == model}
    workload = Workload(
        name="study",
        model=model["name"],
        options=tuple((key, value) for key, value in model.items() if key != "name"),
        image_shape=shape,
        batch_size=next(row.recipe["training"]["batch_size"] for row in rows if row.recipe),
    )
    threads = torch.get_num_threads()
    try:
        specs = [REFERENCE, *dict.fromkeys(texts.values())]
        costs = measure_steps(specs, workload, repeats=repeats, memory=False)
    finally:
        torch.set_num_threads(threads)
    ratio = {cost.objective: cost.time_ratio(costs[0]) for cost in costs}
    return [replace(row, step_cost=ratio[texts[row.arm]]) if row.arm in texts else row for row in rows]


def _text(objective: dict[str, object]) -> str:
    """Write an objective as the bench takes it: its name, then its options."""
    options = ",".join(f"{key}={value}" for key, value in objective.items() if key != "name")
    return f"{objective['name']}:{options}".rstrip(":")
