"""Hold what `soar train --plan` says against real trainings.

    python benchmarks/plan.py               minutes; writes docs/results/plan.json and plan.txt
    python benchmarks/plan.py --only SOAR   one row of them anew
    python benchmarks/plan.py --quick       seconds, two updates each, to see that it works; writes nothing

Every recipe is planned, then trained for the updates that were planned, in one process and one thread. The
ratio is planned / real. Wall-clock time is what `--plan` tells; on a machine that does other work as well it
changes from minute to minute, so the same is measured in CPU time, which neighbors disturb least.

MMA searches around correctly classified images only. A plan assumes that all of them are, so it is an upper
bound, and a fresh network stays far below it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from plain_text import plain
from soar import recipes
from soar.cost.training import TrainingCost, measure_training
from soar.environment import environment
from soar.runs import Run
from soar.training.prepare import prepare

RESULTS = Path(__file__).parent.parent / "docs" / "results"
COMMON = ("--validation.examples", "100", "--guards.overfitting", "off")


@dataclass(frozen=True)
class Case:
    """A recipe, changed by flags, for how many updates it is trained, and whether from a standard network."""

    name: str
    recipe: str
    updates: int
    flags: tuple[str, ...] = ()
    is_second: bool = False


MMA = ("--objective", "mma", "--objective.steps", "5")
CASES = (
    Case("standard", "demo-standard", 250),
    Case("PGD-5", "demo-robust", 50),
    Case("PGD-5, perturbed weights", "demo-robust", 40, ("--weight_perturbation", "0.005")),
    Case("TRADES-5", "demo-robust", 40, ("--objective", "trades", "--objective.steps", "5")),
    Case("MMA-5, fresh network", "demo-robust", 40, MMA),
    Case("MMA-5, trained network", "demo-robust", 40, MMA, is_second=True),
    Case("SOAR", "demo-soar", 40),
)


def check(case: Case, *, updates: int) -> dict[str, Any]:
    """Plan a training and do it.

    Args:
        case: what is trained
        updates: for how long
    """
    flags = [*COMMON, "--max_steps", str(updates), *case.flags]
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        folder = Path(name)
        if case.is_second:
            first = Run(
                folder / "first", recipes.load("demo-standard", [*COMMON, "--max_steps", str(5 * updates)])
            )
            prepare(first, progress="quiet").fit()
            flags += ["--start_from", str(first.path)]
        run = Run(folder / "run", recipes.load(case.recipe, flags))
        wall = measure_training(prepare(run, progress="quiet"))
        cpu = measure_training(prepare(run, progress="quiet"), time.process_time)
        trainer = prepare(run, progress="quiet")
        began = time.process_time()
        result = trainer.fit()
        spent = time.process_time() - began
    assert result.status == "finished", result.reason
    return {
        "case": case.name,
        "recipe": case.recipe,
        "flags": [*COMMON, "--max_steps", str(updates), *case.flags],
        "updates": result.steps,
        "passes": [wall.updates[0].forwards, wall.updates[0].backwards],
        "gflop": wall.flop / 1e9,
        "planned_wall": _known(wall),
        "real_wall": result.seconds,
        "planned_cpu": _known(cpu),
        "real_cpu": spent,
    }


def _known(cost: TrainingCost) -> float:
    assert cost.seconds is not None
    return cost.seconds


def table(rows: list[dict[str, Any]]) -> Table:
    """Show planned and real seconds side by side."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("training", no_wrap=True)
    for heading in ("updates", "fwd", "bwd", "planned s", "real s", "ratio", "ratio of CPU time"):
        shown.add_column(heading, justify="right")
    for row in rows:
        shown.add_row(
            row["case"],
            str(row["updates"]),
            *map(str, row["passes"]),
            f"{row['planned_wall']:.1f}",
            f"{row['real_wall']:.1f}",
            f"{row['planned_wall'] / row['real_wall']:.2f}",
            f"{row['planned_cpu'] / row['real_cpu']:.2f}",
        )
    return shown


def main(arguments: list[str] | None = None) -> None:
    """Check every case, print the table, and save it unless that was only a trial."""
    parser = argparse.ArgumentParser(description="Hold what soar train --plan says against real trainings.")
    parser.add_argument("--quick", action="store_true", help="two updates each; saves nothing")
    parser.add_argument("--only", action="append", metavar="NAME", help="measure this row anew")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    file = RESULTS / "plan.json"
    rows = {row["case"]: row for row in json.loads(file.read_text())["rows"]} if file.exists() else {}
    for case in CASES:
        if chosen.only is None or case.name in chosen.only:
            rows[case.name] = check(case, updates=2 if chosen.quick else case.updates)
    found = [rows[case.name] for case in CASES if case.name in rows]
    console = Console(record=True, width=110)
    console.print(table(found))
    if not chosen.quick:
        file.write_text(json.dumps({"environment": environment(), "rows": found}, indent=1) + "\n")
        file.with_suffix(".txt").write_text(plain(console.export_text()))


if __name__ == "__main__":
    main()
