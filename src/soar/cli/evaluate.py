"""`soar evaluate`: attack a run, or any model, and print how robust it is."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.common import add_machine_flags, mode, set_up_machine
from soar.errors import UserError

if TYPE_CHECKING:
    from torch import nn

    from soar.data import Dataset
    from soar.evaluation import Assessment
    from soar.threat import Threat

DESCRIPTION = "Attack a trained model and print how often it stays right, with intervals."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to evaluate and how."""
    parser.usage = (
        "soar evaluate RUN [flags] | soar evaluate --model MODULE:CALLABLE --weights FILE --data NAME"
    )
    parser.add_argument(
        "run_folder", nargs="?", type=Path, metavar="RUN", help="a run folder of `soar train`"
    )
    parser.add_argument("--model", metavar="MODULE:CALLABLE", help="a function that returns any torch model")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="its weights, .safetensors or .pt")
    parser.add_argument("--data", metavar="NAME", help="data set (default: that of the run)")
    parser.add_argument("--split", choices=("test", "validation", "train"), default="test")
    parser.add_argument("--examples", type=int, metavar="N", help="only the first N images")
    parser.add_argument("--norm", choices=("linf", "l2"), help="default: that of the run, else linf")
    parser.add_argument("--eps", metavar="EPS", help="such as 8/255 (default: that of the run)")
    parser.add_argument(
        "--attacks",
        nargs="+",
        default=["quick"],
        metavar="ATTACK",
        help="suites and attacks, such as standard, square:queries=1000 or pgd:steps=100,restarts=5; see"
        " `soar list attacks` and `soar list suites` (default: quick)",
    )
    parser.add_argument(
        "--no-fast", action="store_true", help="attack the model as it is, and not a faster copy of it"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=128, metavar="N")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: RUN/assessment.json, or the next free name"
    )
    add_machine_flags(parser)


@dataclass(frozen=True)
class Subject:
    """What is evaluated, on what, against what."""

    model: nn.Module
    name: str
    data: Dataset
    threat: Threat
    output: Path


def run(arguments: argparse.Namespace) -> int:
    """Evaluate, print the table and save the assessment."""
    from soar.attacks.suites import resolve
    from soar.evaluation.evaluate import evaluate
    from soar.training.distributed import joined

    device = set_up_machine(arguments)
    attacks = resolve(arguments.attacks)
    subject = _external(arguments) if arguments.model else _from_run(arguments)
    split = getattr(subject.data, arguments.split)
    if arguments.examples is not None:
        if arguments.examples < 1:
            raise UserError(f"--examples: got {arguments.examples}, expected at least 1")
        split = split.first(arguments.examples)
    journal = subject.output.with_suffix(".partial.jsonl")
    with joined(device) as world:
        try:
            found = evaluate(
                subject.model.to(world.device(device)),
                split,
                subject.threat,
                attacks,
                seed=arguments.seed,
                batch_size=arguments.batch_size,
                name=subject.name,
                data_name=f"{subject.data.name} ({arguments.split})",
                progress=mode(arguments),
                journal=journal,
                fast=not arguments.no_fast,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
        if world.is_main:
            _save(found, subject.output, journal)
    return 0


def _save(found: Assessment, output: Path, journal: Path) -> None:
    from rich.console import Console

    from soar.evaluation.table import protocol, table

    found.save(output)
    for file in journal.parent.glob(f"{journal.stem}.rank*{journal.suffix}"):
        file.unlink()
    Console().print(table(found))
    for line in [*(f"note: {note}" for note in found.notes), *protocol(found)]:
        print(line)
    print(f"saved {output}")


def _from_run(arguments: argparse.Namespace) -> Subject:
    """Take model, weights, data and threat from a run folder; flags may change data and threat."""
    from soar import data, runs, threat

    if arguments.run_folder is None:
        raise UserError("what to evaluate? Give a run folder, or --model MODULE:CALLABLE and --weights FILE")
    if arguments.weights is not None:
        raise UserError("--weights goes with --model; a run folder has its own weights")
    opened = runs.find(arguments.run_folder)
    recipe = opened.recipe
    limits = threat.threat(arguments.norm or recipe.threat.norm, arguments.eps or recipe.threat.eps)
    own = opened.data(arguments.root)
    other = arguments.data is not None and arguments.data != recipe.data.name
    return Subject(
        model=opened.trained_model(own),
        name=str(opened.path),
        data=data.load(arguments.data, root=arguments.root, seed=recipe.seed) if other else own,
        threat=limits,
        output=_output(arguments, opened.path),
    )


def _external(arguments: argparse.Namespace) -> Subject:
    """Build a model from elsewhere."""
    from soar import data, threat
    from soar.models.external import build_external, load_external_weights

    if arguments.run_folder is not None:
        raise UserError(f"got both the run {arguments.run_folder} and --model; give one of them")
    for flag in ("data", "eps"):
        if getattr(arguments, flag) is None:
            raise UserError(f"--model needs --{flag} too")
    limits = threat.threat(arguments.norm or "linf", arguments.eps)
    model = build_external(arguments.model)
    if arguments.weights is not None:
        load_external_weights(model, arguments.weights)
    return Subject(
        model=model,
        name=arguments.model if arguments.weights is None else f"{arguments.model} {arguments.weights}",
        data=data.load(arguments.data, root=arguments.root),
        threat=limits,
        output=_output(arguments, Path()),
    )


def _output(arguments: argparse.Namespace, folder: Path) -> Path:
    """Give a file that does not exist yet, so that no earlier result is lost."""
    from soar.runs import free_path

    wanted: Path | None = arguments.output
    if wanted is None:
        return free_path("assessment", folder, suffix=".json")
    if wanted.exists():
        raise UserError(f"--output: {wanted} exists already; choose another name")
    return wanted
