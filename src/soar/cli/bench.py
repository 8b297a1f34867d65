"""`soar bench`: the cost of a training step."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soar import files
from soar.errors import UserError, unknown

if TYPE_CHECKING:
    from rich.table import Table

    from soar.cost.step import StepCost
    from soar.cost.workload import Workload

DESCRIPTION = "Measure what a training step of each objective costs: time, passes, memory, as ratios."
_CAPTION = """ms: CPU time of a step, the median; / std, / PGD-10: ratios to those two, taken round by round
fwd, bwd: batches through the network; MiB: how much a process grew in one step"""
REFERENCES = ("standard", "adversarial:steps=10")
OBJECTIVES = (
    "foar",
    "soar",
    "soar:hvp=finite-difference",
    "trades",
    "mart",
    "mma",
    "cure",
    "llr",
    "rs-fgsm",
    "nfgsm",
    "qub",
    "grad-align",
    "elle",
    "nuat",
    "pgi",
    "ibp",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to measure."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="WHAT")
    step = actions.add_parser("step", help="time, passes and memory of one training step", allow_abbrev=False)
    step.add_argument(
        "--objectives",
        nargs="+",
        default=list(OBJECTIVES),
        metavar="NAME",
        help="names of `soar list objectives`, with options as in soar:hvp=exact "
        f"(default: {', '.join(OBJECTIVES)}); standard and PGD-10 training are always measured",
    )
    step.add_argument(
        "--networks",
        nargs="+",
        metavar="NAME",
        help="resnet10-w16, resnet10-w64, wrn-28-2, resnet18-bn (default: all)",
    )
    step.add_argument("--repeats", type=int, default=5, metavar="N", help="steps to take the median of")
    step.add_argument("--threads", type=int, default=1, metavar="N")
    step.add_argument("--no-memory", action="store_true", help="measure time and passes only")
    step.add_argument("--output", type=Path, metavar="FILE.json", help="save all numbers and the environment")
    step.add_argument("--quiet", action="store_true", help="show no progress")


def run(arguments: argparse.Namespace) -> int:
    """Measure one network after the other, print a table of each, and save the results."""
    from rich.console import Console

    from soar.cost.workload import WORKLOADS
    from soar.environment import environment
    from soar.options import parse_spec

    output: Path | None = arguments.output
    if output is not None:
        if output.exists():
            raise UserError(f"--output: {output} exists already; choose another name")
        files.ready_folder(output.parent, "--output")
    for spec in arguments.objectives:
        parse_spec(spec, "objectives")
    for name in arguments.networks or []:
        if name not in WORKLOADS:
            raise unknown("network", name, WORKLOADS, "--networks")
    objectives = list(dict.fromkeys([*REFERENCES, *arguments.objectives]))
    console = Console()
    results = []
    for workload in (WORKLOADS[name] for name in arguments.networks or WORKLOADS):
        results.append(_record(workload, _measure(arguments, objectives, workload)))
        console.print(_table(results[-1]))
    console.print(_CAPTION, highlight=False)
    if output is not None:
        record = {"environment": environment(), "repeats": arguments.repeats, "networks": results}
        files.write(output, json.dumps(record, indent=1) + "\n", overwrite=False)
        console.print(f"saved to {output}", highlight=False, soft_wrap=True)
    return 0


def _measure(arguments: argparse.Namespace, objectives: list[str], workload: Workload) -> list[StepCost]:
    """Measure one network under a progress bar."""
    from soar.cli.common import mode
    from soar.cost.step import measure_steps
    from soar.progress import Progress

    memory = not arguments.no_memory
    total = len(objectives) * (arguments.repeats + 1 + memory)
    with Progress(total, workload.name, mode(arguments), unit="steps") as progress:
        return measure_steps(
            objectives,
            workload,
            repeats=arguments.repeats,
            threads=arguments.threads,
            memory=memory,
            done=lambda name: progress.advance(measured=name),
        )


def _record(workload: Workload, costs: list[StepCost]) -> dict[str, Any]:
    """Return the results of one network as plain data."""
    standard, reference = costs[0], costs[1]
    rows = [
        {
            "objective": cost.objective,
            "seconds": cost.seconds,
            "times": list(cost.times),
            "time_to_standard": cost.time_ratio(standard),
            "time_to_pgd_10": cost.time_ratio(reference),
            "forwards": cost.forwards,
            "backwards": cost.backwards,
            "mebibytes": cost.mebibytes,
            "memory_to_standard": cost.memory_ratio(standard),
        }
        for cost in costs
    ]
    about = asdict(workload) | {"options": dict(workload.options)}
    return {"network": about.pop("name"), **about, "costs": rows}


def _table(record: dict[str, Any]) -> Table:
    from rich import box
    from rich.table import Table

    title = f"{record['network']}, batch of {record['batch_size']}"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    table.add_column("objective", no_wrap=True)
    for heading in ("ms", "/ std", "/ PGD-10", "fwd", "bwd", "MiB", "/ std"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in record["costs"]:
        memory, ratio = row["mebibytes"], row["memory_to_standard"]
        table.add_row(
            row["objective"],
            f"{1000 * row['seconds']:.0f}",
            f"{row['time_to_standard']:.2f}",
            f"{row['time_to_pgd_10']:.3f}",
            str(row["forwards"]),
            str(row["backwards"]),
            "" if memory is None else f"{memory:.0f}",
            "" if ratio is None else f"{ratio:.2f}",
        )
    return table
