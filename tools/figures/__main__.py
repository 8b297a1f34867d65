"""Print the numbers of a figure and draw it: `python -m tools.figures valley --figure a.svg`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.figures.command import Part, Result, Section
from tools.figures.network import Network, open_network

from soar.errors import UserError
from tools.figures import command, confidence, lengths, valley


def draw_valley(_: argparse.Namespace) -> Result:
    """Section 2 of the paper, in two dimensions."""
    title = f"Two weights, |x_2| up to {valley.EPS}"
    return Result([Section(title, valley.table())], valley.draw)


def draw_attack_path(arguments: argparse.Namespace) -> Result:
    """The loss along an attack."""
    from tools.figures import attack_path

    network = _network(arguments)
    found = attack_path.measure(network)
    return Result(attack_path.sections(network, found), lambda path: attack_path.draw(found, path))


def draw_lengths(_: argparse.Namespace) -> Result:
    """The gap in the proof of Proposition 1."""
    title = "The mean of ||Hz||, for H with equal singular values"
    return Result([Section(title, lengths.table())], lengths.draw)


def draw_kinks(arguments: argparse.Namespace) -> Result:
    """The finite difference by its step."""
    from tools.figures import kinks

    if arguments.samples < 1:
        raise UserError(f"--samples: got {arguments.samples}, expected at least 1")
    network = _network(arguments)
    found = kinks.measure(network, samples=arguments.samples)
    return Result(kinks.sections(network, found), lambda path: kinks.draw(found, path))


def draw_confidence(_: argparse.Namespace) -> Result:
    """The loss of larger and larger logits."""
    title = f"One point at distance {confidence.DISTANCE:g} from the boundary"
    return Result([Section(title, confidence.table())], confidence.draw)


def draw_verdicts(arguments: argparse.Namespace) -> Result:
    """Attacks set against each other."""
    from soar.evaluation.diagnosis import Diagnosis
    from tools.figures import verdicts

    diagnoses = [Diagnosis.load(file) for file in arguments.files]
    section = Section("Right under attack, per cent", verdicts.table(diagnoses))
    return Result([section], lambda path: verdicts.draw(diagnoses, path))


def draw_work(arguments: argparse.Namespace) -> Result:
    """Arithmetic and time of a training step."""
    from tools.figures import work

    times = {} if arguments.times is None else work.measured(arguments.times)
    rows = work.table(times)
    title = f"Arithmetic of a training step of {work.NETWORK}, in forward passes of its batch"
    return Result([Section(title, rows)], lambda path: work.draw(rows, times, path))


def draw_passes(arguments: argparse.Namespace) -> Result:
    """Passes of an attack, image by image."""
    from soar.evaluation.assessment import Assessment
    from tools.figures import passes

    found = Assessment.load(arguments.file)
    sections = passes.sections(found, arguments.attack)
    return Result(sections, lambda path: passes.draw(found, arguments.attack, path))


def _network(arguments: argparse.Namespace) -> Network:
    from soar import runs

    if arguments.examples < 1:
        raise UserError(f"--examples: got {arguments.examples}, expected at least 1")
    return open_network(runs.find(arguments.run), arguments.examples, root=arguments.root)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder of `soar train`")
    parser.add_argument("--examples", type=int, default=32, metavar="N", help="test images (default: 32)")
    parser.add_argument("--root", type=Path, metavar="DIR", help="the folder of all datasets")


def _add_kinks(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    parser.add_argument(
        "--samples", type=int, default=4, metavar="K", help="directions z per image (default: 4)"
    )


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="DIAGNOSIS", help="files of `soar diagnose`")


def _add_times(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("times", nargs="?", type=Path, metavar="TIMES", help="a file of `soar bench step`")


def _add_assessment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="ASSESSMENT", help="a file of `soar evaluate`")
    parser.add_argument("--attack", default="PGD-20", metavar="LABEL", help="which attack (default: PGD-20)")


PARTS = {
    "valley": Part("a perfect fit in two dimensions, and what an adversary makes of it", draw_valley),
    "attack-path": Part("the loss along an attack, beside its expansions", draw_attack_path, _add_run),
    "lengths": Part("why the mean of ||Hz|| is not the Frobenius norm", draw_lengths),
    "kinks": Part("what a finite difference measures in a ReLU network", draw_kinks, _add_kinks),
    "confidence": Part("how larger logits hide the gradient", draw_confidence),
    "verdicts": Part("attacks of diagnoses set against each other", draw_verdicts, _add_files),
    "work": Part("the arithmetic of a training step, and its time", draw_work, _add_times),
    "passes": Part("the passes of an attack, image by image", draw_passes, _add_assessment),
}


def main(words: Sequence[str]) -> int:
    """Print the numbers of a figure and draw it; see `tools.figures.command.run`."""
    return command.run("tools.figures", __doc__ or "", PARTS, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
