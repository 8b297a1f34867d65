"""`soar demo`: train without defense, by the obvious attack and as we recommend; attack, diagnose, report."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from types import ModuleType

from soar.cli import diagnose, report
from soar.cli.experiments import add_executor_flags, carry_out
from soar.cli.study import link_runs, show

DESCRIPTION = "Train Standard, FGSM and N-FGSM on bundled data, attack, diagnose and report (minutes)."
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
    shorter = () if epochs is None else ("--epochs", str(epochs), "--warmup_epochs", "0")
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
    found = link_runs(study, folder, arguments.cache)
    links = [str(path) for path in found.values()]
    examples = max(one.examples for row in study.rows for one in row.columns.values())
    flags = ["--examples", str(min(DIAGNOSED, examples)), "--device", arguments.device]
    flags += ["--root", str(arguments.root)] if arguments.root else []
    flags += ["--quiet"] if arguments.quiet else []
    for link in links:
        if not Path(link, "diagnosis.json").exists():
            _call(diagnose, [link, *flags])
    _call(report, [*links, "--output", str(folder / DONE), *flags])
    if not arguments.quiet:
        strong = f"soar evaluate {found['N-FGSM']} --attacks standard"
        print(f"look at {folder / DONE}; attack harder with: {strong}")
    return 0


def _call(command: ModuleType, words: list[str]) -> None:
    """Call another command as a user would."""
    parser = argparse.ArgumentParser(prog="soar")
    command.add_arguments(parser)
    command.run(parser.parse_args(words))


def _unfinished() -> Path | None:
    """Return the folder of a demo that was interrupted."""
    folders = [path for path in sorted(Path("runs").glob("demo*")) if re.fullmatch(r"demo(-\d+)?", path.name)]
    left = [path for path in folders if not ((path / DONE).exists() or (path / "recipe.toml").exists())]
    return next(iter(left), None)
