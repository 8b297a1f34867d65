"""`soar sweep`: train a recipe at every place of a grid, select on validation."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from soar import files
from soar.cli.common import mode
from soar.cli.executing import add_executor_flags, make_executor, tell_failures

if TYPE_CHECKING:
    from rich.console import Console

    from soar.experiments.grid import Sweep
    from soar.experiments.sweep import Point

DESCRIPTION = "Train a recipe at every place of a grid, select on validation robust accuracy."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the recipe, the grid and the flags that are not fields of the recipe."""
    parser.usage = "soar sweep RECIPE --grid FIELD=VALUE,VALUE [--grid ...] [--FIELD VALUE ...]"
    parser.epilog = "fields of `soar train` may be set for all trainings at once, such as --epochs 1"
    parser.add_argument("recipe", metavar="RECIPE", help="a name of `soar list recipes`, or FILE.toml")
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="FIELD=VALUES",
        help="values to try, such as objective.beta=1,3,5; several grids are multiplied",
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="trainings of each (default: 1)")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="folder of the result (default: CACHE/sweeps/RECIPE-HASH)"
    )
    add_executor_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plan, train, select; a second call goes on with what an earlier one did not finish."""
    from rich.console import Console

    from soar.experiments import grid, sweep
    from soar.experiments.planning.pace import timed
    from soar.experiments.planning.plan import plan
    from soar.experiments.cache import Cache
    from soar.experiments.showing import show
    from soar.experiments.showing.watch import Watch

    asked = grid.Sweep(
        recipe=arguments.recipe,
        flags=tuple(arguments.fields),
        grid=grid.parse(arguments.grid),
        seeds=arguments.seeds,
    )
    executor, room, device = make_executor(arguments)
    cache = Cache(arguments.cache)
    trials = sweep.trials(asked, cache, root=arguments.root, device=device)
    jobs = [job.shared_by(arguments.processes) for _, of_place in trials for job in of_place]
    planned = timed(plan(jobs, cache), cache)
    console = Console(record=True, width=None if Console().is_terminal else 140)
    if not arguments.quiet or arguments.plan:
        begun = [job.key for job in planned.todo if cache.condition(job.key).name == "unfinished"]
        show.plan(Console(width=console.width), planned, room=room, begun=begun, whole=arguments.plan)
    if arguments.plan:
        return 0
    keys = hashlib.sha256("".join(job.key for job in jobs).encode()).hexdigest()[:8]
    default = arguments.cache / "sweeps" / f"{Path(arguments.recipe).stem}-{keys}"
    folder = arguments.output or default
    if planned.todo:
        files.ready_folder(arguments.cache, "--cache")
        files.ready_folder(folder, "--output")
    try:
        with Watch(planned, room, mode(arguments)) as watch:
            endings = executor.run(planned.todo, watch) if planned.todo else {}
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
    found = sweep.points(trials, cache, endings)
    _tell(console, asked, found, folder)
    tell_failures(planned, endings)
    return 1 if any(ending.status != "done" for ending in endings.values()) else 0


def _tell(console: Console, asked: Sweep, found: list[Point], folder: Path) -> None:
    """Print the result and keep it as numbers, text and a chart."""
    from soar.experiments import sweep
    from soar.experiments.showing import show, sweep_show

    console.print()
    console.print(sweep_show.table(asked, found))
    console.print(sweep_show.verdict(asked, found), highlight=False, markup=False)
    sweep.save(asked, found, folder / "sweep.json")
    files.write(folder / "sweep.txt", show.text_of(console))
    files.write(folder / "sweep.svg", sweep_show.chart(asked, found))
    print(f"{folder / 'sweep.json'}, sweep.txt, sweep.svg")
