"""What a training step costs in arithmetic, counted while it runs, beside the time that it takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tools.figures.drawing import BLUE, ORANGE, drawing

from soar.cost import count_update
from soar.cost.workload import WORKLOADS, Workload, build
from soar.errors import UserError
from soar.theory import Rows

NETWORK = "resnet10-w64"
_BATCH = 1
REFERENCE = "adversarial:steps=10"
OBJECTIVES = {
    "standard": "standard",
    "foar": "FOAR",
    "soar": "SOAR",
    "soar:hvp=finite-difference": "SOAR, paper's difference",
    REFERENCE: "PGD-10",
    "trades": "TRADES",
}


def forward_passes(objective: str, network: Workload) -> float:
    """Give the arithmetic of a training step in units of one forward pass of its batch.

    Args:
        objective: a registered name, with options as in "adversarial:steps=10"
        network: what it is counted on
    """
    return count_update(*build(objective, network)).work


def measured(file: Path) -> dict[str, list[float]]:
    """Read the times of `soar bench step --output FILE`, relative to PGD-10: one number per network.

    Args:
        file: the JSON file

    Raises:
        UserError: if it is not of that kind
    """
    times: dict[str, list[float]] = {}
    try:
        networks = json.loads(file.read_text())["networks"]
        for cost in (cost for network in networks for cost in network["costs"]):
            times.setdefault(cost["objective"], []).append(cost["time_to_pgd_10"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"TIMES: got '{file}', expected a file of `soar bench step --output`") from error
    return times


def table(times: dict[str, list[float]]) -> Rows:
    """Count the arithmetic of every objective and put the times beside it."""
    network = replace(WORKLOADS[NETWORK], batch_size=_BATCH)
    counted = {name: forward_passes(name, network) for name in OBJECTIVES}
    rows: Rows = []
    for name, title in OBJECTIVES.items():
        found = times.get(name, [])
        rows.append(
            {
                "training step": title,
                "forward passes": counted[name],
                "/ PGD-10": counted[name] / counted[REFERENCE],
                "least time / PGD-10": min(found, default=None),
                "most": max(found, default=None),
            }
        )
    return rows


def draw(rows: Rows, times: dict[str, list[float]], path: Path) -> None:
    """Draw the arithmetic as bars and the times as dots on them."""
    with drawing(path, width=8.0, height=3.9) as figure:
        axes = figure.add_subplot()
        axes.set_title("A step takes about the time of its arithmetic")
        axes.set(xlabel="relative to a training step of PGD-10")
        axes.grid(visible=True, axis="x")
        heights = range(len(rows) - 1, -1, -1)
        shares = [row["/ PGD-10"] for row in rows]
        axes.barh(heights, shares, color=BLUE, alpha=0.35, height=0.6, label="arithmetic, counted")
        for height, name, row in zip(heights, OBJECTIVES, rows, strict=True):
            found = times.get(name, [])
            label = "CPU time, one dot a network" if height == 0 else None
            axes.plot(found, [height] * len(found), "o", color=ORANGE, markersize=6, alpha=0.8, label=label)
            passes = f"{row['forward passes']:.0f} forward passes"
            axes.text(1.01, height, passes, va="center", fontsize=9, transform=axes.get_yaxis_transform())
        axes.set_yticks(list(heights), [row["training step"] for row in rows])
        axes.tick_params(axis="y", length=0)
        axes.legend(frameon=False, loc="upper right")
