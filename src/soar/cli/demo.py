"""`soar demo`: train an undefended and two robust classifiers, attack and diagnose all, write a page."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.common import add_machine_flags, mode, set_up_machine
from soar.errors import UserError

if TYPE_CHECKING:
    from soar.runs import Run
    from soar.studies.conduct import Conditions

DESCRIPTION = "Train Standard, PGD-1 and SOAR on bundled data, attack, diagnose and report (minutes)."
DONE = "report.html"
# Enough to see whether gradients are hidden; a diagnosis that one relies on takes more.
DIAGNOSED = 100


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
    from soar import runs, studies
    from soar.cli.study import show
    from soar.studies.conduct import Conditions
    from soar.studies.study import folder_name

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
        show(found, study, folder, picture=folder / "comparison.svg")
        for row in found.rows:
            if not row.accuracy:
                raise UserError(f"the training of {row.arm} in {folder} {row.status}: {row.reason}")
        opened = [runs.find(folder / folder_name(arm.name)) for arm in study.arms]
        _report(opened, conditions, examples=min(DIAGNOSED, study.examples))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
    say(f"look at {folder / DONE}; attack harder with: soar evaluate {folder / 'soar'} --attacks standard")
    return 0


def _report(opened: list[Run], conditions: Conditions, *, examples: int) -> None:
    """Diagnose every network and write the page."""
    from soar.evaluation import diagnose
    from soar.evaluation.journal import remove_journals
    from soar.report import gather, write

    contents = []
    for run in opened:
        output = run.path / "diagnosis.json"
        journal = output.with_suffix(".partial.jsonl")
        if not output.exists():
            conditions.say(f"\nis {run.path.name} robust, or does it hide its gradients?")
            data = run.data(conditions.root)
            found = diagnose(
                run.trained_model(data).to(conditions.device),
                data.test.first(examples),
                run.threat(),
                name=str(run.path),
                data_name=f"{data.name} (test)",
                progress=conditions.progress,
                journal=journal,
                weights=run.weights(),
            )
            found.save(output)
            remove_journals(journal)
            conditions.say(f"{found.verdict}: {found.summary}")
        contents.append(
            gather.gather(
                run,
                examples=examples,
                device=conditions.device,
                root=conditions.root,
                progress=conditions.progress,
                say=conditions.say,
            )
        )
    write.report(contents, conditions.folder / DONE)


def _unfinished() -> Path | None:
    """Find a demo that was interrupted."""
    folders = [path.parent.parent for path in Path("runs").glob("demo*/standard/recipe.toml")]
    return next((path for path in sorted(folders) if not (path / DONE).exists()), None)


def _next() -> Path:
    from soar.runs import free_path

    return free_path("demo")
