"""Print a part of the theory, and draw it: `python -m soar.paper.theory linear-regression --figure a.svg`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from soar.errors import UserError, unknown
from soar.paper.theory import drawings, figures, linear_regression, logistic_regression, proposition_1
from soar.paper.theory.table import Section, show_all
from soar.progress import Mode


class Result(NamedTuple):
    """The tables of a part, and what draws its figure into a file."""

    sections: list[Section]
    draw: Callable[[Path], None]


class Part(NamedTuple):
    """A part of the theory that a word on the command line stands for."""

    description: str
    run: Callable[[argparse.Namespace], Result]


def linear(_: argparse.Namespace) -> Result:
    """Section 2 of the paper."""
    sections = [
        Section("Fits, and what an adversary makes of them", linear_regression.table()),
        Section("Robust loss on the way, d 100", linear_regression.expansions()),
    ]
    return Result(sections, lambda path: drawings.draw_linear_regression(sections[0].rows, path))


def logistic(_: argparse.Namespace) -> Result:
    """Section 4.1 of the paper."""
    sections = [
        Section(
            f"One point at distance 2 from the boundary, rho {radius:g}", logistic_regression.table(radius)
        )
        for radius in (3.0, 5.0)
    ]
    return Result(sections, lambda path: drawings.draw_logistic_regression(sections, path))


def proposition(_: argparse.Namespace) -> Result:
    """Proposition 1."""
    sections = [Section("Proposition 1: the largest second-order loss and its bounds", proposition_1.table())]
    return Result(sections, lambda path: drawings.draw_proposition_1(proposition_1.curve(), path))


def tightness(arguments: argparse.Namespace) -> Result:
    """Every step of the derivation on a trained network."""
    from soar import runs
    from soar.paper.theory import tightness as measurement
    from soar.paper.theory import tightness_tables
    from soar.paper.theory.subject import open_subject, trained

    for flag, least in (("examples", 1), ("samples", 2)):
        if getattr(arguments, flag) < least:
            raise UserError(f"--{flag}: got {getattr(arguments, flag)}, expected at least {least}")
    mode: Mode = "quiet" if arguments.quiet else "auto"
    if arguments.run is None:
        with trained(arguments.output, mode=mode) as run:
            subject = open_subject(run, arguments.examples, root=arguments.root)
    elif arguments.output is not None:
        raise UserError(f"--output is for a network that is trained here; {arguments.run} is trained already")
    else:
        subject = open_subject(runs.find(arguments.run), arguments.examples, root=arguments.root)
    found = measurement.measure(subject, samples=arguments.samples, start=arguments.start, mode=mode)
    sections = tightness_tables.report(subject, found, arguments.start)
    gains = tightness_tables.all_gains(found, measurement.radius_of(subject, arguments.start))
    return Result(sections, lambda path: drawings.draw_tightness(gains, sections[0].title, path))


PARTS = {
    "linear-regression": Part("an over-parametrised model: perfect and defenceless", linear),
    "logistic-regression": Part("how confidence switches the regulariser off", logistic),
    "proposition-1": Part("the printed bound, what breaks it, two that hold", proposition),
    "tightness": Part("what each step of the derivation gives away on a trained network", tightness),
}


class _Parser(argparse.ArgumentParser):
    """Tells a mistake as the rest of the package does: one line, no usage."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def make_parser() -> argparse.ArgumentParser:
    """Declare the parts and their flags."""
    parser = _Parser(prog="python -m soar.paper.theory", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="part", metavar="PART", required=True)
    for name, part in PARTS.items():
        command = commands.add_parser(
            name, help=part.description, description=part.description, allow_abbrev=False
        )
        command.add_argument("--figure", type=Path, metavar="FILE", help="draw it: .svg, .png or .pdf")
        if name == "tightness":
            _add_tightness_flags(command)
    return parser


def _add_tightness_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", type=Path, metavar="RUN", help="a run folder of `soar train`; else one is trained"
    )
    parser.add_argument("--examples", type=int, default=20, metavar="N", help="test images (default: 20)")
    parser.add_argument("--samples", type=int, default=100, metavar="K", help="directions z (default: 100)")
    parser.add_argument(
        "--start", choices=("zero", "pgd-1"), default="zero", help="expand at the image, or as SOAR does"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="keep the network that is trained here")
    parser.add_argument("--root", type=Path, metavar="DIR", help="the folder of all data sets")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def main(words: Sequence[str]) -> int:
    """Print the tables of the part that was asked for, or say in one line what is wrong.

    Returns:
        0 when all went well, 2 for a mistake of the user's, 130 when interrupted.
    """
    try:
        if not words:
            raise UserError(f"which part? Say one of {', '.join(PARTS)}")
        if not words[0].startswith("-") and words[0] not in PARTS:
            raise unknown("part", words[0], PARTS, "soar.paper.theory")
        arguments = make_parser().parse_args(words)
        if arguments.figure is not None:
            figures.check(arguments.figure)
        result = PARTS[arguments.part].run(arguments)
        print(show_all(result.sections))
        if arguments.figure is not None:
            result.draw(arguments.figure)
        return 0
    except UserError as error:
        print(f"soar: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("soar: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
