"""Print a part of the theory, and draw it: `python -m tools.theory linear-regression --figure a.svg`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.figures.command import Part, Result, Section

from soar.errors import UserError
from soar.progress import Mode
from soar.theory import linear_regression, logistic_regression
from tools.figures import command
from tools.theory import cases, drawings, regularizers


def linear(_: argparse.Namespace) -> Result:
    """Section 2 of the paper."""
    sections = [
        Section("Fits, and what an adversary makes of them", regularizers.table()),
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
    sections = [Section("Proposition 1: the largest second-order loss and its bounds", cases.table())]
    return Result(sections, lambda path: drawings.draw_proposition_1(cases.curve(), path))


def tightness(arguments: argparse.Namespace) -> Result:
    """Every step of the derivation on a trained network."""
    from tools.figures.network import open_network, trained
    from tools.theory.tightness import measure

    from soar import runs

    for flag, least in (("examples", 1), ("samples", 2)):
        if getattr(arguments, flag) < least:
            raise UserError(f"--{flag}: got {getattr(arguments, flag)}, expected at least {least}")
    mode: Mode = "quiet" if arguments.quiet else "auto"
    if arguments.run is None:
        with trained(arguments.output, mode=mode) as run:
            network = open_network(run, arguments.examples, root=arguments.root)
    elif arguments.output is not None:
        raise UserError(f"--output is for a network that is trained here; {arguments.run} is trained already")
    else:
        network = open_network(runs.find(arguments.run), arguments.examples, root=arguments.root)
    sections, gains = measure(network, samples=arguments.samples, start=arguments.start, mode=mode)
    return Result(sections, lambda path: drawings.draw_tightness(gains, sections[0].title, path))


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
    parser.add_argument("--root", type=Path, metavar="DIR", help="the folder of all datasets")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


PARTS = {
    "linear-regression": Part("an over-parametrized model with zero loss and no robustness", linear),
    "logistic-regression": Part("how confidence switches the regularizer off", logistic),
    "proposition-1": Part("the printed bound, what breaks it, two that hold", proposition),
    "tightness": Part(
        "how tight each step of the derivation is on a trained network", tightness, _add_tightness_flags
    ),
}


def main(words: Sequence[str]) -> int:
    """Print the tables of the part that was asked for; see `tools.figures.command.run`."""
    return command.run("tools.theory", __doc__ or "", PARTS, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
