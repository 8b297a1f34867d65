"""`soar bench`: what a training step costs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soar import files
from soar.errors import UserError
from soar.options import parse_spec

if TYPE_CHECKING:
    from rich.table import Table

    from soar.cost.step import StepCost
    from soar.cost.workload import Workload

DESCRIPTION = "Measure what a training step of each objective costs: time, passes, memory, as ratios."
_CAPTION = """ms: CPU time of a step, the median; / std, / PGD-10: ratios to those two, taken round by round
fwd, bwd: batches through the network; MiB: how much a process grew in one step"""
_LARGEST_BATCH = 8192
REFERENCES = ("standard", "adversarial:steps=10")
OBJECTIVES = ("foar", "soar", "soar:product=difference", "trades", "mart", "mma", "cure", "llr")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to measure."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="WHAT")
    step = actions.add_parser("step", help="time, passes and memory of one training step", allow_abbrev=False)
    step.add_argument(
        "--objectives",
        nargs="+",
        default=list(OBJECTIVES),
        metavar="NAME",
        help="names of `soar list objectives`, with options as in soar:product=exact, or all "
        f"(default: {', '.join(OBJECTIVES)}); standard and PGD-10 training are always measured",
    )
    step.add_argument(
        "--networks",
        nargs="+",
        metavar="NAME",
        help="resnet10-w16, resnet10-w64, wrn-28-2, resnet18-bn (default: all)",
    )
    step.add_argument("--model", metavar="NAME", help="instead of --networks: a name of `soar list models`")
    step.add_argument(
        "--options", nargs="*", metavar="NAME=VALUE", help="options of --model, such as width=16"
    )
    step.add_argument("--batch-size", type=int, metavar="N", help="batch of --model (default: 32)")
    step.add_argument("--repeats", type=int, default=5, metavar="N", help="steps to take the median of")
    step.add_argument("--threads", type=int, default=1, metavar="N")
    step.add_argument("--no-memory", action="store_true", help="measure time and passes only")
    step.add_argument("--output", type=Path, metavar="FILE.json", help="save all numbers and the environment")
    step.add_argument("--quiet", action="store_true", help="show no progress")


def run(arguments: argparse.Namespace) -> int:
    """Measure network by network, print a table of each, and save what was found."""
    from rich.console import Console

    _check(arguments)
    objectives, networks = _objectives(arguments), _networks(arguments)
    console = Console()
    results = []
    for network in networks:
        costs = _measured(arguments, objectives, network)
        console.print(_table(network, costs))
        results.append(_record(network, costs))
    console.print(_CAPTION, highlight=False)
    if arguments.output is not None:
        _save(arguments, results)
        console.print(f"saved to {arguments.output}", highlight=False, soft_wrap=True)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what makes no sense, before minutes are spent."""
    if arguments.batch_size is not None and arguments.batch_size > _LARGEST_BATCH:
        # These images are made up, so nothing else bounds how many there are.
        raise UserError(f"--batch-size: got {arguments.batch_size}, expected at most {_LARGEST_BATCH}")
    if arguments.model is not None and arguments.networks is not None:
        raise UserError("--model: got together with --networks, expected one of the two")
    for flag in ("options", "batch_size"):
        if getattr(arguments, flag) is not None and arguments.model is None:
            raise UserError(f"--{flag.replace('_', '-')}: goes with --model, which was not given")
    output: Path | None = arguments.output
    if output is not None:
        if output.exists():
            raise UserError(f"--output: {output} exists already; choose another name")
        files.ready_folder(output.parent, "--output")


def _objectives(arguments: argparse.Namespace) -> list[str]:
    """Return the references and then whatever else was asked for."""
    from soar.objectives import OBJECTIVES as REGISTERED

    wanted: list[str] = arguments.objectives
    if wanted == ["all"]:
        wanted = [entry.name for entry in REGISTERED if entry.name != "adversarial"]
    for spec in wanted:
        parse_spec(spec, "objectives")
    return list(dict.fromkeys([*REFERENCES, *wanted]))


def _networks(arguments: argparse.Namespace) -> list[Workload]:
    from soar.cost.workload import WORKLOADS, Workload, workload

    if arguments.model is None:
        return [workload(name) for name in arguments.networks or WORKLOADS]
    options = tuple(_pair(text) for text in arguments.options or [])
    label = " ".join([arguments.model, *(arguments.options or [])])
    return [
        Workload(name=label, model=arguments.model, options=options, batch_size=arguments.batch_size or 32)
    ]


def _measured(arguments: argparse.Namespace, objectives: list[str], network: Workload) -> list[StepCost]:
    """Measure one network under a progress bar."""
    from soar.cli.common import mode
    from soar.cost.step import measure_steps
    from soar.progress import Progress

    memory = not arguments.no_memory
    total = len(objectives) * (arguments.repeats + 1 + memory)
    with Progress(total, network.name, mode(arguments), unit="steps") as progress:
        return measure_steps(
            objectives,
            network,
            repeats=arguments.repeats,
            threads=arguments.threads,
            memory=memory,
            done=lambda name: progress.advance(measured=name),
        )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UserError(f"--options: got '{text}', expected NAME=VALUE")
    return name, value


def _table(network: Workload, costs: list[StepCost]) -> Table:
    from rich import box
    from rich.table import Table

    standard, reference = costs[0], costs[1]
    title = f"{network.name}, batch of {network.batch_size}"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    table.add_column("objective", no_wrap=True)
    for heading in ("ms", "/ std", "/ PGD-10", "fwd", "bwd", "MiB", "/ std"):
        table.add_column(heading, justify="right", no_wrap=True)
    for cost in costs:
        memory = cost.memory_ratio(standard)
        table.add_row(
            cost.objective,
            f"{1000 * cost.seconds:.0f}",
            f"{cost.time_ratio(standard):.2f}",
            f"{cost.time_ratio(reference):.3f}",
            str(cost.forwards),
            str(cost.backwards),
            "" if cost.mebibytes is None else f"{cost.mebibytes:.0f}",
            "" if memory is None else f"{memory:.2f}",
        )
    return table


def _record(network: Workload, costs: list[StepCost]) -> dict[str, Any]:
    """Return the numbers of one network as plain data."""
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
    return {
        "network": network.name,
        "model": network.model,
        "options": dict(network.options),
        "image_shape": list(network.image_shape),
        "batch_size": network.batch_size,
        "costs": rows,
    }


def _save(arguments: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    """Write a file that did not exist."""
    from soar.environment import environment

    record = {"environment": environment(), "repeats": arguments.repeats, "networks": results}
    files.write(arguments.output, json.dumps(record, indent=1) + "\n", overwrite=False)
