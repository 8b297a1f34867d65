"""`soar reproduce`: tables of the paper, its numbers and ours side by side."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.experiments import add_executor_flags, carry_out, print_and_save
from soar.errors import UserError, unknown

if TYPE_CHECKING:
    from soar.experiments.experiment import Experiment
    from soar.experiments.result import Result

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
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="training runs each (default: 1)")
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
    """Reproduce tables; a second call resumes what an earlier one did not finish."""
    from soar.experiments import loading
    from soar.experiments.claims import judge

    known = loading.tables()
    for name in arguments.tables:
        if name not in (*known, "all"):
            raise unknown("table", name, (*known, "all"), "soar reproduce TABLE")
    names = known if "all" in arguments.tables else tuple(dict.fromkeys(arguments.tables))
    folder = arguments.output or arguments.cache / "tables"

    def again(experiment: Experiment) -> str:
        seeds = f" --seeds {arguments.seeds}" if arguments.seeds > 1 else ""
        return f"soar reproduce {experiment.name} --scale {experiment.scale}{seeds}"

    def show(result: Result, experiment: Experiment) -> None:
        found = judge(experiment.claims, result)
        print_and_save(result, folder / f"{result.file_name}.json", claims=found)

    return carry_out(
        arguments,
        [
            loading.load(name, scale=arguments.scale, seeds=arguments.seeds, root=arguments.root)
            for name in names
        ],
        folder,
        show,
        only=arguments.only,
        weights=_weights(arguments.weights),
        again=again,
    )


def _weights(texts: Sequence[str]) -> dict[str, Path]:
    """Read ROW=FILE; a row may contain an equals sign, a file's name is what follows the last one."""
    found = {}
    for text in texts:
        row, equals, file = text.rpartition("=")
        if not equals or not row or not file:
            raise UserError(f"--weights: got '{text}', expected ROW=FILE")
        found[row] = Path(file)
    return found
