"""`soar sweep`: train a recipe at every point of a grid, select on validation."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from soar import files
from soar.cli.experiments import add_executor_flags, carry_out

if TYPE_CHECKING:
    from soar.experiments.result import Result
    from soar.experiments.sweep import Sweep

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
    from soar.experiments.sweep import Sweep, parse

    sweep = Sweep(
        recipe=arguments.recipe,
        flags=tuple(arguments.fields),
        grid=parse(arguments.grid),
        seeds=arguments.seeds,
    )
    asked = repr((sweep.recipe, sweep.flags, sweep.grid, sweep.seeds))
    digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
    default = arguments.cache / "sweeps" / f"{Path(arguments.recipe).stem}-{digest}"
    folder = arguments.output or default
    return carry_out(
        arguments,
        [sweep.experiment()],
        folder,
        lambda result, _: _show(result, sweep, folder),
        seeds=sweep.seeds,
    )


def _show(result: Result, sweep: Sweep, folder: Path) -> None:
    """Print the result and keep it as numbers, text and a chart."""
    from rich.console import Console

    from soar.experiments.show import terminal
    from soar.experiments.show.curves import sweep_chart
    from soar.experiments.sweep import verdict

    console = Console(record=True, width=None if Console().is_terminal else 140)
    terminal.table(console, result, marked=next(iter(result.validation), ""))
    console.print(verdict(result), highlight=False, markup=False)
    result.save(folder / "sweep.json")
    files.write(folder / "sweep.txt", terminal.text_of(console))
    files.write(folder / "sweep.svg", sweep_chart(result, sweep.grid, sweep.places()))
    print(f"{folder / 'sweep.json'}, sweep.txt, sweep.svg")
