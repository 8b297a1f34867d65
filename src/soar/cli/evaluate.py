"""`soar evaluate`: attack a run, or any model, and print how robust it is."""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.common import add_deterministic_flag, add_machine_flags, set_up_machine
from soar.cli.target import add_target_flags, result_files, target, target_words
from soar.errors import UserError

if TYPE_CHECKING:
    from soar.evaluation import Assessment, Certificate
    from soar.evaluation.target import Target

DESCRIPTION = "Attack a trained model and print its clean and robust accuracy, with intervals."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to evaluate and how."""
    add_target_flags(parser, examples="default: all", several=True)
    parser.add_argument(
        "--attacks",
        nargs="+",
        default=["auto"],
        metavar="ATTACK",
        help="suites and attacks, such as standard, square:queries=1000 or pgd:steps=100,restarts=5; see"
        " `soar list attacks` and `soar list suites` (default: auto)",
    )
    parser.add_argument(
        "--corruptions",
        nargs="?",
        const=True,
        default=False,
        metavar="DIR",
        help="also measure accuracy under the 15 common corruptions at severities 1 to 5, made of the images,"
        " or read from a folder with the files of CIFAR-10-C",
    )
    parser.add_argument(
        "--budget", metavar="TIME", help="evaluate as many images as a time such as 90s or 10m allows"
    )
    parser.add_argument(
        "--no-fast", action="store_true", help="attack the model as it is, and not a faster copy of it"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: RUN/assessment.json, or the next free name"
    )
    add_machine_flags(parser)
    add_deterministic_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate, print the table and save the assessment."""
    from soar.distributed import joined
    from soar.evaluation.bracket import check
    from soar.evaluation.suites import resolve

    device = set_up_machine(arguments)
    resolve(arguments.attacks)  # before anything is loaded
    radii = arguments.eps if arguments.eps and len(arguments.eps) > 1 else None
    if radii and arguments.budget is not None:
        raise UserError("--budget cannot be combined with several --eps; choose one radius")
    given = target(arguments)
    with joined(device) as world, result_files(arguments, "assessment", world, radii or [""]) as outputs:
        journal = outputs[0].with_suffix(".partial.jsonl")
        given.model.to(world.device(device))
        try:
            found = _evaluate(arguments, given, radii, journal)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
        if world.is_main:
            certificates = _certificates(arguments, given)
            _save(arguments, found, certificates, outputs, journal)
            for one, certificate in product(found, certificates):
                check(certificate, one)
    return 0


def _certificates(arguments: argparse.Namespace, given: Target) -> list[Certificate]:
    """Return what is certified of the run's weights, to be shown beside attacks."""
    from soar.evaluation.records import find_certificates

    return [] if arguments.run_folder is None else find_certificates(arguments.run_folder, given)


def _evaluate(
    arguments: argparse.Namespace,
    given: Target,
    radii: list[str] | None,
    journal: Path,
) -> tuple[Assessment, ...]:
    from soar.evaluation.budget import evaluate_within
    from soar.evaluation.corrupted import open_source, with_corruptions
    from soar.evaluation.protocol import evaluate_target
    from soar.evaluation.radii import evaluate_radii
    from soar.evaluation.suites import resolve
    from soar.threat import threat

    # Suites are made for the norm of the threat, which is known by now.
    attacks, fast = resolve(arguments.attacks, given.threat.norm_name), not arguments.no_fast
    source = open_source(arguments.corruptions, given)
    if radii:
        threats = [threat(given.threat.norm_name, eps) for eps in radii]
        found = evaluate_radii(given, threats, attacks, journal=journal, fast=fast)
    elif arguments.budget is not None:
        found = (evaluate_within(given, arguments.budget, attacks, journal=journal, fast=fast),)
    else:
        found = (evaluate_target(given, attacks, journal=journal, fast=fast),)
    return with_corruptions(found, given, source)


def _save(
    arguments: argparse.Namespace,
    found: tuple[Assessment, ...],
    certificates: list[Certificate],
    outputs: list[Path],
    journal: Path,
) -> None:
    from rich.console import Console

    from soar import epsilon
    from soar.evaluation.corruptions import corruption_table
    from soar.evaluation.first_look import one_line
    from soar.evaluation.journal import remove_journals
    from soar.evaluation.table import curve, protocol, table

    console = Console()
    at = {one.threat: one for one in certificates}
    for one in found:
        console.print(table(one, at.get(one.threat)))
    if len(found) > 1:
        console.print(curve(found, certificates))
    if found[0].corruptions is not None:
        console.print(corruption_table(found[0].corruptions))
    for line in [*(f"note: {note}" for note in found[0].notes), *protocol(found[0])]:
        print(line)
    for one in found:
        words = target_words(arguments, epsilon.show(one.threat.eps) if len(found) > 1 else None)
        if one.diagnosis is not None and (line := one_line(one.diagnosis, words)):
            print(line if len(found) == 1 else f"{one.threat}: {line}")
    # Last: what cannot be saved has at least been shown.
    for one, output in zip(found, outputs, strict=True):
        one.save(output)
        print(f"saved {output}")
    remove_journals(journal)
