"""`soar evaluate`: attack a run, or any model, and print how robust it is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.common import add_machine_flags, set_up_machine
from soar.cli.target import add_target_flags, result_file, target

if TYPE_CHECKING:
    from soar.evaluation import Assessment

DESCRIPTION = "Attack a trained model and print its clean and robust accuracy, with intervals."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to evaluate and how."""
    add_target_flags(parser, examples="default: all")
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
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: RUN/assessment.json, or the next free name"
    )
    add_machine_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate, print the table and save the assessment."""
    from soar.distributed import joined
    from soar.evaluation.evaluate import evaluate_target
    from soar.evaluation.suites import resolve

    device = set_up_machine(arguments)
    attacks = resolve(arguments.attacks)
    given = target(arguments)
    with joined(device) as world, result_file(arguments, "assessment", world) as output:
        journal = output.with_suffix(".partial.jsonl")
        given.model.to(world.device(device))
        try:
            found = evaluate_target(given, attacks, journal=journal, fast=not arguments.no_fast)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
        if world.is_main:
            _save(found, output, journal)
    return 0


def _save(found: Assessment, output: Path, journal: Path) -> None:
    from rich.console import Console

    from soar.evaluation.first_look import one_line
    from soar.evaluation.journal import remove_journals
    from soar.evaluation.table import protocol, table

    Console().print(table(found))
    for line in [*(f"note: {note}" for note in found.notes), *protocol(found)]:
        print(line)
    if found.diagnosis is not None and (line := one_line(found.diagnosis)):
        print(line)
    # Last: what cannot be saved has at least been shown.
    found.save(output)
    remove_journals(journal)
    print(f"saved {output}")
