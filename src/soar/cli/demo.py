"""`soar demo`: train an undefended and a robust classifier on bundled data, attack both, compare."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.common import add_machine_flags, mode, set_up_machine
from soar.errors import UserError

if TYPE_CHECKING:
    from soar.evaluation import Assessment
    from soar.runs import Run

DESCRIPTION = "Train a standard and a robust classifier on bundled data, attack both, compare (minutes)."
DONE = "comparison.txt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for everything (default: runs/demo, or the next free one)",
    )
    parser.add_argument("--examples", type=int, default=500, metavar="N", help="test images to attack")
    parser.add_argument("--epochs", type=int, metavar="N", help="epochs of each training")
    add_machine_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; a second call goes on with an unfinished one."""
    try:
        return _show(arguments)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None


def _show(arguments: argparse.Namespace) -> int:
    """Train both, attack both, print the comparison."""
    from rich.console import Console

    from soar.evaluation.table import comparison, save_picture

    for flag in ("examples", "epochs"):
        value = getattr(arguments, flag)
        if value is not None and value < 1:
            raise UserError(f"--{flag}: got {value}, expected at least 1")
    device = set_up_machine(arguments)
    folder = arguments.output or _unfinished() or _next()
    say = (lambda _: None) if arguments.quiet else print
    say(f"everything goes into {folder}")
    say("\n1. Train a classifier the usual way.")
    standard = _train("demo-standard", folder / "standard", [], arguments, device)
    say("\n2. Train a robust one, starting from it: every batch is attacked before it is learned from.")
    robust = _train("demo-robust", folder / "robust", ["--start_from", str(standard.path)], arguments, device)
    say(f"\n3. Attack both on {arguments.examples} images that neither has seen.")
    found = {
        "standard": _attack(standard, arguments, device),
        "robust": _attack(robust, arguments, device),
    }
    console = Console(record=True)
    threat = robust.threat()
    console.print(f"\nStays right under attack, {threat} (each pixel may change by {threat.radius:.0%}):")
    console.print(comparison(found))
    save_picture(console, folder / "comparison.svg")
    (folder / DONE).write_text(console.export_text())
    say(f"saved in {folder}; attack it harder with: soar evaluate {robust.path} --attacks restarts")
    return 0


def _unfinished() -> Path | None:
    """Find a demo that was interrupted."""
    folders = [path.parent.parent for path in Path("runs").glob("demo*/standard/recipe.toml")]
    return next((path for path in sorted(folders) if not (path / DONE).exists()), None)


def _next() -> Path:
    from soar.runs import free_path

    return free_path("demo")


def _train(recipe: str, path: Path, fields: list[str], arguments: argparse.Namespace, device: str) -> Run:
    """Train, or go on, or do nothing where the training is finished."""
    from soar import recipes, runs
    from soar.training.prepare import prepare

    if arguments.epochs is not None:
        fields = [*fields, "--epochs", str(arguments.epochs), "--eps_warmup_epochs", "0.5"]
    started = (path / "recipe.toml").exists()
    opened = runs.find(path) if started else runs.plan(recipes.load(recipe, fields), path)
    trainer = prepare(opened, device=device, progress=mode(arguments), resume=True)
    if not started:
        opened.create()
    result = trainer.fit()
    if result.status == "interrupted":
        raise KeyboardInterrupt
    if result.status == "stopped":
        raise UserError(f"the training in {path} stopped: {result.reason}")
    return opened


def _attack(opened: Run, arguments: argparse.Namespace, device: str) -> Assessment:
    """Evaluate with the quick suite, or read what was found before."""
    from soar.evaluation import Assessment, evaluate
    from soar.training.weights import load_weights

    output = opened.path / "assessment.json"
    if output.exists():
        return Assessment.load(output)
    data = opened.data()
    model = opened.model(len(data.classes), data.shape).to(device)
    load_weights(model, opened.path, "RUN")
    found = evaluate(
        model,
        data.test.first(arguments.examples),
        opened.threat(),
        "quick",
        name=opened.path.name,
        data_name=f"{data.name} (test)",
        progress=mode(arguments),
        journal=opened.path / "assessment.partial.jsonl",
    )
    found.save(output)
    return found
