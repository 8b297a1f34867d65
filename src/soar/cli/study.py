"""`soar study`: train several networks that differ in a few fields, attack them all, compare."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from soar import files
from soar.cli.common import add_machine_flags, mode, set_up_machine
from soar.errors import unknown

if TYPE_CHECKING:
    from soar.studies import Findings, Study

DESCRIPTION = "Train several networks that differ in a few fields, attack them all, compare."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the study and the flags that are not fields of its recipes."""
    parser.usage = "soar study STUDY [--FIELD VALUE ...]"
    parser.epilog = "fields of `soar train` may be set for all trainings at once, such as --epochs 1"
    parser.add_argument("study", metavar="STUDY", help="a name of `soar list studies`, or FILE.toml")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for everything (default: runs/study-NAME); what is there is not done again",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ARM",
        help="train this one now (repeat for several); the others later, or in another process",
    )
    parser.add_argument("--examples", type=int, metavar="N", help="images to attack")
    add_machine_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run a study; a second call goes on with an unfinished one."""
    from dataclasses import replace

    from soar import studies
    from soar.studies.conduct import Conditions

    study = studies.load(arguments.study)
    known = [arm.name for arm in study.arms]
    for name in arguments.only:
        if name not in known:
            raise unknown("arm", name, known, "flag --only")
    if arguments.examples is not None:
        study = replace(study, examples=arguments.examples)
    name = Path(arguments.study).stem
    conditions = Conditions(
        folder=arguments.output or Path("runs") / f"study-{name}",
        flags=tuple(arguments.fields),
        device=set_up_machine(arguments),
        root=arguments.root,
        progress=mode(arguments),
        say=(lambda _: None) if arguments.quiet else print,
    )
    try:
        found = studies.conduct(name, study, conditions, only=arguments.only)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
    show(found, study, conditions.folder)
    return 1 if any(row.status == "failed" for row in found.rows) else 0


def show(found: Findings, study: Study, folder: Path, *, picture: Path | None = None) -> None:
    """Print the table; keep it with its numbers beside the runs.

    Args:
        found: what the study found
        study: for its description
        folder: where to keep it
        picture: an SVG file to draw it into as well
    """
    from rich.console import Console

    from soar.evaluation.table import save_picture

    console = Console(record=True, width=None if Console().is_terminal else 140)
    console.print(f"\n{study.description}")
    console.print(found.table())
    found.save(folder / "study.json")
    if picture is not None:
        save_picture(console, picture)
    files.write(folder / "study.txt", console.export_text())
