"""`soar sweep`: train a recipe at every point of a grid, select on validation."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.experiments import add_executor_flags, carry_out, print_and_save

if TYPE_CHECKING:
    from soar.experiments.experiment import Experiment
    from soar.experiments.result import Result

DESCRIPTION = "Train a recipe at every point of a grid, select on validation robust accuracy."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the recipe, the grid and the flags that are not fields of the recipe."""
    parser.usage = "soar sweep RECIPE --grid FIELD=VALUE,VALUE [--grid ...] [--FIELD VALUE ...]"
    parser.epilog = "fields of `soar train` may be set for all training runs at once, such as --epochs 1"
    parser.add_argument("recipe", metavar="RECIPE", help="a name of `soar list recipes`, or FILE.toml")
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="FIELD=VALUES",
        help="values to try, such as objective.beta=1,3,5; several grids are multiplied",
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="training runs each (default: 1)")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="folder of the result (default: CACHE/sweeps/RECIPE-HASH)"
    )
    add_executor_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plan, train, select; a second call resumes what an earlier one did not finish."""
    from soar.experiments.sweep import experiment, parse

    grid, flags, seeds = parse(arguments.grid), tuple(arguments.fields), arguments.seeds
    asked = repr((arguments.recipe, flags, grid, seeds))
    digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
    default = arguments.cache / "sweeps" / f"{Path(arguments.recipe).stem}-{digest}"
    folder = arguments.output or default

    def show(result: Result, _: Experiment) -> None:
        print_and_save(result, folder / "sweep.json", marked=list(result.validation)[:1])

    made = experiment(arguments.recipe, grid, flags=flags, seeds=seeds)
    return carry_out(arguments, [made], folder, show)
