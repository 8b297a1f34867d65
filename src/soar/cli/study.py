"""`soar study`: train several networks that differ in a few fields, attack them all, compare."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.experiments import add_executor_flags, carry_out, print_and_save
from soar.errors import unknown

if TYPE_CHECKING:
    from soar.experiments.experiment import Experiment
    from soar.experiments.result import Result

DESCRIPTION = "Train several networks that differ in a few fields, attack them all, compare."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the study and the flags that are not fields of its recipes."""
    parser.usage = "soar study STUDY [--FIELD VALUE ...]"
    parser.epilog = "fields of `soar train` may be set for all training runs at once, such as --epochs 1"
    parser.add_argument("study", metavar="STUDY", help="a name of `soar list studies`, or FILE.toml")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="folder of the table, with a link to every run (default: runs/study-NAME)",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ROW",
        help="work on this row now (repeat for several); the others later, or in another process",
    )
    parser.add_argument("--examples", type=int, metavar="N", help="images to attack")
    parser.add_argument(
        "--split",
        choices=("test", "validation"),
        help="images to attack: choose on validation, then look at test once (default: as the study says)",
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="training runs each (default: 1)")
    add_executor_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run a study; a second call resumes what an earlier one did not finish."""
    from soar.experiments import loading

    if arguments.study not in loading.studies() and not arguments.study.endswith(".toml"):
        raise unknown("study", arguments.study, [*loading.studies(), "FILE.toml"], "soar study STUDY")
    study = loading.load(
        arguments.study,
        flags=arguments.fields,
        examples=arguments.examples,
        seeds=arguments.seeds,
        root=arguments.root,
        split=arguments.split,
    )
    folder = arguments.output or Path("runs") / f"study-{study.name}"
    return carry_out(
        arguments,
        [study],
        folder,
        lambda result, experiment: show(result, experiment, folder, arguments.cache),
        only=arguments.only,
    )


def show(result: Result, study: Experiment, folder: Path, cache: Path) -> None:
    """Print the table; keep it with its numbers, and link to every run that is there.

    Args:
        result: the study's table
        study: the study
        folder: where to keep it
        cache: where networks are
    """
    from soar.experiments.intervals import leaders

    print_and_save(result, folder / "study.json", marked=leaders(result, "worst case"))
    link_runs(study, folder, cache)


def link_runs(study: Experiment, folder: Path, cache: Path) -> dict[str, Path]:
    """Make a link to the first seed's run of every row, and return those of runs that are there."""
    from soar.experiments.cache import Cache
    from soar.experiments.loading import folder_name

    links = {}
    for row in study.rows:
        if row.network is None:
            continue
        run = Cache(cache).network(study.networks[row.network].key)
        if not (run / "recipe.toml").exists():
            continue
        link = links[row.name] = folder / folder_name(row.name)
        if link.is_symlink():
            link.unlink()
        if not link.exists():
            link.symlink_to(os.path.relpath(run, folder), target_is_directory=True)
    return links
