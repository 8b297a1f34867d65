"""`soar certify`: prove on which images no attack can fool a run, or any model."""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.common import add_deterministic_flag, add_machine_flags, set_up_machine
from soar.cli.target import add_target_flags, result_files, target

if TYPE_CHECKING:
    from soar.evaluation import Bracket, Certificate
    from soar.evaluation.target import Target

DESCRIPTION = "Certify images: prove that no perturbation changes the prediction, beside what attacks leave."
EXAMPLES = 200
_PARTS = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(1))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to certify and how."""
    usual = "1/8, 1/4, 1/2 and all of that of the run"
    add_target_flags(parser, examples=f"default: {EXAMPLES}", several=True, eps=usual)
    parser.add_argument(
        "--method",
        default="crown",
        metavar="METHOD",
        help="crown, ibp or smoothing, with options as in crown:steps=20 or smoothing:sigma=0.5,draws=10000;"
        " see `soar list methods` (default: crown)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: RUN/certificate.json, or the next free name"
    )
    add_machine_flags(parser)
    add_deterministic_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Certify, print the table with what attacks have left, and save the certificates."""
    from soar import epsilon
    from soar.distributed import joined
    from soar.evaluation.certification import certify_target
    from soar.evaluation.methods import method_of
    from soar.threat import threat

    device = set_up_machine(arguments)
    method = method_of(arguments.method)
    given = target(arguments, examples=EXAMPLES)
    radii = arguments.eps or [epsilon.show(part * given.threat.eps) for part in _PARTS]
    threats = [threat(given.threat.norm_name, eps) for eps in radii]
    with joined(device) as world, result_files(arguments, "certificate", world, radii) as outputs:
        journal = outputs[0].with_suffix(".partial.jsonl")
        given.model.to(world.device(device))
        try:
            found = certify_target(given, threats, method, journal=journal)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
        if world.is_main:
            _save(found, _brackets(arguments, given, found), outputs, journal)
    return 0


def _brackets(arguments: argparse.Namespace, given: Target, found: tuple[Certificate, ...]) -> list[Bracket]:
    """Compare with the attacks on record in the run folder, the assessment with the most examples last.

    Raises:
        UserError: if one of them fooled a certified image
    """
    from soar.evaluation.bracket import bracket
    from soar.evaluation.records import find_assessments

    if arguments.run_folder is None:
        return []
    known = sorted(find_assessments(arguments.run_folder, given), key=len)
    both = [bracket(certificate, one) for certificate in found for one in known]
    return [one for one in both if one is not None]


def _save(
    found: tuple[Certificate, ...], brackets: list[Bracket], outputs: list[Path], journal: Path
) -> None:
    from rich.console import Console

    from soar.evaluation.journal import remove_journals
    from soar.evaluation.table import certificate_table

    Console().print(certificate_table(found, brackets))
    print(f"{found[0].method}: {', '.join(f'{name} {value}' for name, value in found[0].options.items())}")
    if found[0].method == "crown" and not any(one.certified.any() for one in found):
        print("nothing is certified: try a smaller --eps, or --method crown:refine=true on a small network")
    # Last: what cannot be saved has at least been shown.
    for one, output in zip(found, outputs, strict=True):
        one.save(output)
        print(f"saved {output}")
    remove_journals(journal)
