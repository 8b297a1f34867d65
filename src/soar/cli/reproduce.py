"""`soar reproduce`: tables of the paper with our numbers beside them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from soar import files
from soar.cli.common import mode
from soar.cli.executing import add_executor_flags, make_executor, tell_failures
from soar.errors import UserError

if TYPE_CHECKING:
    from soar.experiments.table_result import TableResult

DESCRIPTION = "Train and measure what tables of the paper need; print its numbers, ours and the difference."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the tables, how large, and which part of them."""
    parser.add_argument("tables", nargs="+", metavar="TABLE", help="names of `soar list tables`, or all")
    parser.add_argument(
        "--scale",
        required=True,
        metavar="smoke|small|paper",
        help="seconds, hours on two cores, or the paper's own size",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="ROW",
        help="work on these rows now; the others show what was found earlier",
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="trainings of each (default: 1)")
    parser.add_argument(
        "--weights",
        action="append",
        default=[],
        metavar="ROW=FILE",
        help="weights of your own for a row (.safetensors), in place of training",
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="folder of the results (default: CACHE/tables)"
    )
    add_executor_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plan, work, compare; a second call goes on with what an earlier one did not finish."""
    from rich.console import Console

    from soar.experiments import conduct
    from soar.experiments.planning.scales import scale
    from soar.experiments.cache import Cache
    from soar.experiments.showing import show
    from soar.experiments.showing.watch import Watch

    ids = conduct.tables(arguments.tables)
    executor, room, device = make_executor(arguments)
    work = conduct.prepare(
        ids,
        scale(arguments.scale),
        Cache(arguments.cache),
        seeds=arguments.seeds,
        only=arguments.only,
        weights=_weights(arguments.weights),
        root=arguments.root,
        device=device,
        processes=arguments.processes,
    )
    console = Console(width=None if Console().is_terminal else 140)
    if not arguments.quiet or arguments.plan:
        show.plan(
            console,
            work.plan,
            room=room,
            begun=work.begun(),
            obstacles=work.obstacles(),
            whole=arguments.plan,
        )
    if arguments.plan:
        return 0
    folder = arguments.output or arguments.cache / "tables"
    if work.plan.todo:
        files.ready_folder(arguments.cache, "--cache")
        files.ready_folder(folder, "--output")
    try:
        with Watch(work.plan, room, mode(arguments)) as watch:
            went_well = work.run(executor, watch)
    except KeyboardInterrupt:
        # Who stops after hours wants to see what came of them; what cannot be written is written next time.
        _tell_all([result for result in work.results() if result.has_numbers], folder)
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
    problems = _tell_all(work.results(), folder)
    tell_failures(work.plan, work.endings)
    if problems:
        raise problems[0]
    return 0 if went_well else 1


def _tell_all(results: Sequence[TableResult], folder: Path) -> list[UserError]:
    """Print and keep every table; a full disk keeps none from being shown."""
    problems = []
    for result in results:
        try:
            _tell(result, folder)
        except UserError as problem:
            problems.append(problem)
    return problems


def _weights(texts: Sequence[str]) -> dict[str, Path]:
    """Read ROW=FILE; a row may hold an equals sign, a file's name is what follows the last one."""
    found = {}
    for text in texts:
        row, equals, file = text.rpartition("=")
        if not equals or not row or not file:
            raise UserError(f"--weights: got '{text}', expected ROW=FILE")
        found[row] = Path(file)
    return found


def _tell(result: TableResult, folder: Path) -> None:
    """Print a table with the claims about it, and keep it as numbers and as text."""
    from rich.console import Console

    from soar.experiments import conduct, table_file
    from soar.experiments.showing import show

    console = Console(record=True, width=None if Console().is_terminal else 140)
    show.table(console, result, conduct.paper_of(result))
    show.claims(console, conduct.judged(result))
    path = folder / f"{result.table}-{result.scale}.json"
    table_file.save(result, path)
    files.write(path.with_suffix(".txt"), show.text_of(console))
    print(f"\n{path}")
