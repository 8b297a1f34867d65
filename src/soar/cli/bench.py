"""`soar bench`: what a training step costs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from soar.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from soar.bench.step import Cost

DESCRIPTION = "Measure what a training step of each objective costs: time, passes, memory, as ratios."
_CAPTION = """median CPU time of a step, measured in turns; / std and / PGD-10: ratios to those two;
fwd, bwd: batches through the network; MiB: how much a process grew in one step"""
REFERENCES = ("standard", "adversarial steps=10")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to measure."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="WHAT")
    step = actions.add_parser("step", help="time, passes and memory of one training step")
    step.add_argument(
        "--objectives",
        nargs="+",
        metavar="NAME",
        help='names of `soar list objectives`, with options as in "soar product=exact" (default: all)',
    )
    step.add_argument("--model", default="resnet10", metavar="NAME", help="a name of `soar list models`")
    step.add_argument(
        "--options",
        nargs="*",
        default=[],
        metavar="NAME=VALUE",
        help="options of the model, such as width=16",
    )
    step.add_argument("--batch-size", type=int, default=32, metavar="N")
    step.add_argument("--repeats", type=int, default=5, metavar="N", help="steps to take the median of")
    step.add_argument("--threads", type=int, default=1, metavar="N")
    step.add_argument("--no-memory", action="store_true", help="measure time and passes only")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print a table."""
    from rich.console import Console

    from soar.bench.step import Setting, measure
    from soar.objectives import OBJECTIVES

    for flag in ("batch_size", "repeats", "threads"):
        value = getattr(arguments, flag)
        if value < 1:
            raise UserError(f"--{flag.replace('_', '-')}: got {value}, expected at least 1")
    wanted = arguments.objectives or [entry.name for entry in OBJECTIVES]
    setting = Setting(
        model=arguments.model,
        options=tuple(_pair(text, "--options") for text in arguments.options),
        batch_size=arguments.batch_size,
        repeats=arguments.repeats,
        threads=arguments.threads,
    )
    for name in wanted:
        for text in name.split()[1:]:
            _pair(text, "--objectives")
    names = [*REFERENCES, *(name for name in wanted if name not in (*REFERENCES, "adversarial"))]
    Console().print(_table(measure(names, setting, memory=not arguments.no_memory)))
    return 0


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UserError(f"{flag}: got '{text}', expected NAME=VALUE")
    return name, value


def _table(costs: list[Cost]) -> Table:
    from rich import box
    from rich.table import Table

    standard, reference = costs[0], costs[1]
    table = Table(box=box.SIMPLE_HEAD, caption=_CAPTION, caption_justify="left")
    table.add_column("objective", no_wrap=True)
    for heading in ("ms", "/ std", "/ PGD-10", "fwd", "bwd", "MiB", "/ std"):
        table.add_column(heading, justify="right")
    for cost in costs:
        memory = ("", "")
        if cost.mebibytes is not None and standard.mebibytes:
            memory = (f"{cost.mebibytes:.0f}", f"{cost.mebibytes / standard.mebibytes:.2f}")
        table.add_row(
            cost.objective,
            f"{1000 * cost.seconds:.0f}",
            f"{cost.seconds / standard.seconds:.2f}",
            f"{cost.seconds / reference.seconds:.2f}",
            str(cost.forwards),
            str(cost.backwards),
            *memory,
        )
    return table
