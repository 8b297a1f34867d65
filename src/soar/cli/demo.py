"""`soar demo`: train an undefended and two robust classifiers, attack and diagnose all, write a page."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.common import mode
from soar.cli.experiments import add_executor_flags, carry_out
from soar.cli.study import link_runs, show
from soar.environment import choose_device

if TYPE_CHECKING:
    from soar.runs import Run

DESCRIPTION = "Train Standard, PGD-1 and SOAR on bundled data, attack, diagnose and report (minutes)."
DONE = "report.html"
# Enough to see whether gradients are masked; a diagnosis to rely on takes more.
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
    add_executor_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; a second call resumes an unfinished one."""
    from soar import runs
    from soar.experiments import loading

    epochs = arguments.epochs
    shorter = () if epochs is None else ("--epochs", str(epochs), "--eps_warmup_epochs", "0.5")
    study = loading.load("demo", flags=shorter, examples=arguments.examples)
    folder = arguments.output or _unfinished() or runs.free_path("demo")
    if not arguments.quiet:
        print(f"everything goes into {folder}")
    code = carry_out(
        arguments,
        [study],
        folder,
        lambda result, one: show(result, one, folder, arguments.cache),
    )
    if code or arguments.plan:
        return code
    opened = [runs.find(path) for path in link_runs(study, folder, arguments.cache).values()]
    examples = max(one.examples for row in study.rows for one in row.columns.values())
    try:
        _report(opened, arguments, folder, examples=min(DIAGNOSED, examples))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command resumes from here") from None
    if not arguments.quiet:
        strong = f"soar evaluate {folder / 'soar'} --attacks standard"
        print(f"look at {folder / DONE}; attack harder with: {strong}")
    return 0


def _report(opened: list[Run], arguments: argparse.Namespace, folder: Path, *, examples: int) -> None:
    """Diagnose every network and write the page."""
    from soar.evaluation import diagnose
    from soar.evaluation.journal import remove_journals
    from soar.evaluation.target import Target
    from soar.report import gather, write

    device, root = choose_device(arguments.device), arguments.root
    log = (lambda _: None) if arguments.quiet else print
    contents = []
    for run in opened:
        output = run.path / "diagnosis.json"
        journal = output.with_suffix(".partial.jsonl")
        if not output.exists():
            log(f"\nis {run.path.name} robust, or does it mask its gradients?")
            target = Target.from_run(run, root=root, examples=examples, device=device)
            found = diagnose(
                target.model,
                target.data,
                target.threat,
                name=target.name,
                data_name=target.data_name,
                progress=mode(arguments),
                journal=journal,
                weights=target.weights,
            )
            found.save(output)
            remove_journals(journal)
            log(f"{found.verdict}: {found.summary}")
        contents.append(
            gather.gather(run, examples=examples, device=device, root=root, progress=mode(arguments), say=log)
        )
    write.report(contents, folder / DONE)


def _unfinished() -> Path | None:
    """Return the folder of a demo that was interrupted."""
    folders = [path for path in sorted(Path("runs").glob("demo*")) if re.fullmatch(r"demo(-\d+)?", path.name)]
    left = [path for path in folders if not ((path / DONE).exists() or (path / "recipe.toml").exists())]
    return next(iter(left), None)
