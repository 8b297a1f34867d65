"""`soar demo`: train an undefended and two robust classifiers on bundled data, attack all, compare."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from soar.cli.common import add_machine_flags, mode, set_up_machine
from soar.errors import UserError

DESCRIPTION = "Train Standard, PGD-1 and SOAR on bundled data, attack all three, compare (minutes)."
DONE = "study.txt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for everything (default: runs/demo, or the next free one)",
    )
    parser.add_argument("--examples", type=int, metavar="N", help="test images to attack (default 1000)")
    parser.add_argument("--epochs", type=int, metavar="N", help="epochs of each training")
    add_machine_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; a second call goes on with an unfinished one."""
    from soar import studies
    from soar.cli.study import show
    from soar.studies.conduct import Conditions

    for flag in ("examples", "epochs"):
        value = getattr(arguments, flag)
        if value is not None and value < 1:
            raise UserError(f"--{flag}: got {value}, expected at least 1")
    study = studies.load("demo")
    if arguments.examples is not None:
        study = replace(study, examples=arguments.examples)
    shorter = () if arguments.epochs is None else ("--epochs", str(arguments.epochs))
    folder = arguments.output or _unfinished() or _next()
    say = (lambda _: None) if arguments.quiet else print
    say(f"everything goes into {folder}")
    conditions = Conditions(
        folder=folder,
        flags=(*shorter, "--eps_warmup_epochs", "0.5") if shorter else (),
        device=set_up_machine(arguments),
        root=arguments.root,
        progress=mode(arguments),
        say=say,
    )
    try:
        found = studies.conduct("demo", study, conditions)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
    show(found, study, folder, picture=folder / "comparison.svg")
    for row in found.rows:
        if not row.accuracy:
            raise UserError(f"the training of {row.arm} in {folder} {row.status}: {row.reason}")
    say(f"saved in {folder}; attack it harder with: soar evaluate {folder / 'soar'} --attacks standard")
    return 0


def _unfinished() -> Path | None:
    """Find a demo that was interrupted."""
    folders = [path.parent.parent for path in Path("runs").glob("demo*/standard/recipe.toml")]
    return next((path for path in sorted(folders) if not (path / DONE).exists()), None)


def _next() -> Path:
    from soar.runs import free_path

    return free_path("demo")
