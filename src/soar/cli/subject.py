"""What a command looks at: a run folder, or a model from elsewhere, with its data and its threat."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from soar.errors import UserError
from soar.files import ready_folder

if TYPE_CHECKING:
    from torch import nn

    from soar.data import Dataset, Split
    from soar.threat import Threat


def add_subject_flags(parser: argparse.ArgumentParser, *, examples: str) -> None:
    """Declare what to look at, on which data and against what.

    Args:
        parser: the command's
        examples: what happens without --examples, for its help
    """
    parser.usage = (
        f"{parser.prog} RUN [flags] | {parser.prog} --model MODULE:CALLABLE --weights FILE --data NAME"
    )
    parser.add_argument(
        "run_folder", nargs="?", type=Path, metavar="RUN", help="a run folder of `soar train`"
    )
    parser.add_argument("--model", metavar="MODULE:CALLABLE", help="a function that returns any torch model")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="its weights, .safetensors or .pt")
    parser.add_argument("--data", metavar="NAME", help="data set (default: that of the run)")
    parser.add_argument("--split", choices=("test", "validation", "train"), default="test")
    parser.add_argument("--examples", type=int, metavar="N", help=f"only the first N images ({examples})")
    parser.add_argument("--norm", choices=("linf", "l2"), help="default: that of the run, else linf")
    parser.add_argument("--eps", metavar="EPS", help="such as 8/255 (default: that of the run)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=128, metavar="N")


@dataclass(frozen=True)
class Subject:
    """What is looked at, on what, against what."""

    model: nn.Module
    name: str
    data: Dataset
    threat: Threat
    folder: Path
    """where results go"""

    def split(self, name: str, examples: int | None) -> Split:
        """Give the images to use.

        Raises:
            UserError: if no image is wanted
        """
        split: Split = getattr(self.data, name)
        if examples is None:
            return split
        if examples < 1:
            raise UserError(f"--examples: got {examples}, expected at least 1")
        return split.first(examples)


def subject(arguments: argparse.Namespace) -> Subject:
    """Open what the flags of `add_subject_flags` name.

    Raises:
        UserError: if the flags contradict each other or name nothing
    """
    return _external(arguments) if arguments.model else _from_run(arguments)


def result_path(arguments: argparse.Namespace, folder: Path, name: str) -> Path:
    """Give a JSON file that does not exist yet, so that no earlier result is lost."""
    from soar.runs import free_path

    wanted: Path | None = arguments.output
    if wanted is None:
        return free_path(name, folder, suffix=".json")
    if wanted.exists():
        raise UserError(f"--output: {wanted} exists already; choose another name")
    return ready_folder(wanted.parent, "--output") / wanted.name


def _from_run(arguments: argparse.Namespace) -> Subject:
    """Take model, weights, data and threat from a run folder; flags may change data and threat."""
    from soar import data, runs, threat

    if arguments.run_folder is None:
        raise UserError("which model? Give a run folder, or --model MODULE:CALLABLE and --weights FILE")
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
        folder=opened.path,
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
        folder=Path(),
    )
