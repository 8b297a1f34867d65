"""What a command evaluates: a run folder, or a model from elsewhere, with its data and its threat."""

from __future__ import annotations

import argparse
import os
import shlex
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.common import mode
from soar.errors import UserError
from soar.files import ready_folder
from soar.locks import reservation, reserved

if TYPE_CHECKING:
    from torch import nn

    from soar.data import Dataset, Split
    from soar.distributed import World
    from soar.evaluation.target import Target
    from soar.weights import Weights


def add_target_flags(
    parser: argparse.ArgumentParser, *, examples: str, several: bool = False, eps: str = "that of the run"
) -> None:
    """Declare what to look at, on which data and against what.

    Args:
        parser: the command's
        examples: what happens without --examples, for its help
        several: whether --eps takes several radii, of which the target gets the first
        eps: what happens without --eps, for its help
    """
    parser.usage = f"{parser.prog} RUN [flags] | {parser.prog} --model MODEL --weights FILE --data NAME"
    add_model_flags(parser)
    parser.add_argument("--data", metavar="NAME", help="dataset (default: that of the run)")
    for flag in ("resize", "crop"):
        parser.add_argument(
            f"--{flag}",
            type=int,
            metavar="N",
            help=f"with --data: data.{flag} of a recipe, for images in files",
        )
    parser.add_argument("--split", choices=("test", "validation", "train"), default="test")
    parser.add_argument("--examples", type=int, metavar="N", help=f"only the first N images ({examples})")
    parser.add_argument("--norm", choices=("linf", "l2"), help="default: that of the run, else linf")
    more = "; several give the curve over them" if several else ""
    parser.add_argument(
        "--eps",
        nargs="+" if several else 1,
        metavar="EPS",
        help=f"such as 8/255 (default: {eps}){more}",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=128, metavar="N")


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the model: a run, perhaps with one of its checkpoints, or a function with weights."""
    parser.add_argument(
        "run_folder", nargs="?", type=Path, metavar="RUN", help="a run folder of `soar train`"
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="a name of `soar list models`, or a function MODULE:CALLABLE that returns any torch model;"
        " with options as in resnet10:width=16 or my.nets:build:width=4",
    )
    parser.add_argument("--weights", type=Path, metavar="FILE", help="its weights, .safetensors or .pt")
    add_checkpoint_flag(parser)


def add_checkpoint_flag(parser: argparse.ArgumentParser) -> None:
    """Declare which weights of a run to use."""
    parser.add_argument(
        "--checkpoint",
        metavar="NAME",
        help="of the run, such as step-00001234 (default: the one that validation chose)",
    )


def target(arguments: argparse.Namespace, *, examples: int | None = None) -> Target:
    """Open the model, the data and the threat that the flags of `add_target_flags` name.

    Args:
        arguments: with those flags
        examples: how many images without --examples; all by default

    Raises:
        UserError: if the flags contradict each other or name nothing
    """
    count: int | None = examples if arguments.examples is None else arguments.examples
    return _external(arguments, count) if arguments.model else _from_run(arguments, count)


def target_words(arguments: argparse.Namespace, eps: str | None = None) -> str:
    """Return the model, the data and the threat as another command takes them.

    Args:
        arguments: with the flags of `add_target_flags`
        eps: one radius, where several were given

    >>> from argparse import Namespace
    >>> rest = dict.fromkeys(("weights", "checkpoint", "data", "resize", "crop", "norm", "root"))
    >>> target_words(Namespace(run_folder=Path("my runs/a"), model=None, split="test", eps=["8/255"], **rest))
    "'my runs/a' --eps 8/255"
    """
    words = [] if arguments.run_folder is None else [str(arguments.run_folder)]
    chosen = eps or (arguments.eps[0] if arguments.eps else None)
    given = ("model", "weights", "checkpoint", "data", "resize", "crop", "norm")
    flags = {name: getattr(arguments, name) for name in given}
    flags |= {"split": None if arguments.split == "test" else arguments.split, "eps": chosen}
    for name, value in (flags | {"root": arguments.root}).items():
        words += [] if value is None else [f"--{name}", str(value)]
    return shlex.join(words)


@contextmanager
def result_file(
    arguments: argparse.Namespace, name: str, world: World, *, suffix: str = ""
) -> Iterator[Path]:
    """Reserve a JSON file that does not exist yet, so that no result is lost, of whatever process.

    Args:
        arguments: with the flag --output, and the run folder where it is without that flag
        name: what it is called without that flag
        world: the processes that share the work; one of them holds the reservation
        suffix: added to either name, to tell several results of one command apart

    Raises:
        UserError: if it exists, another process is about to write it, or it cannot be written
    """
    wanted: Path | None = arguments.output
    wanted = wanted and wanted.with_stem(wanted.stem + suffix)
    folder: Path = arguments.run_folder or Path()
    with ExitStack() as held:

        def reserve() -> Path:
            if wanted is None:
                return held.enter_context(reserved(name + suffix, ready_folder(folder, "--output"), ".json"))
            if os.path.lexists(wanted):
                raise UserError(f"--output: {wanted} exists already; choose another name")
            ready_folder(wanted.parent, "--output")
            held.enter_context(reservation(wanted))
            return wanted

        yield world.on_main(reserve)


@contextmanager
def result_files(
    arguments: argparse.Namespace, name: str, world: World, radii: Sequence[str]
) -> Iterator[list[Path]]:
    """Reserve a JSON file for each radius; with a single one its name does not tell the radius.

    Args:
        arguments: as for `result_file`
        name: what they are called without the flag --output
        world: the processes that share the work
        radii: as they are written

    Raises:
        UserError: as `result_file` does
    """
    suffixes = [f"-eps{eps.replace('/', '_')}" for eps in radii] if len(radii) > 1 else [""]
    with ExitStack() as held:
        yield [held.enter_context(result_file(arguments, name, world, suffix=suffix)) for suffix in suffixes]


def _from_run(arguments: argparse.Namespace, examples: int | None) -> Target:
    """Take model, weights, data and threat from a run folder; flags may change data and threat."""
    from soar import runs, threat
    from soar.evaluation.target import Target

    if arguments.run_folder is None:
        raise UserError("which model? Give a run folder, or --model MODEL and --weights FILE")
    if arguments.weights is not None:
        raise UserError("--weights goes with --model; a run folder has its own weights")
    opened = runs.find(arguments.run_folder, arguments.checkpoint)
    recipe = opened.recipe
    framed = arguments.resize is not None or arguments.crop is not None
    if framed and arguments.data is None:
        raise UserError("--resize and --crop go with --data; a run has those of its recipe")
    other = framed or arguments.data not in (None, recipe.data.name)
    return Target.from_run(
        opened,
        root=arguments.root,
        data=_data(arguments, recipe.seed) if other else None,
        split=arguments.split,
        examples=examples,
        threat=threat.threat(
            arguments.norm or recipe.threat.norm, arguments.eps[0] if arguments.eps else recipe.threat.eps
        ),
        seed=arguments.seed,
        batch_size=arguments.batch_size,
        progress=mode(arguments),
    )


def _external(arguments: argparse.Namespace, examples: int | None) -> Target:
    """Build a model from elsewhere."""
    from soar import threat
    from soar.evaluation.target import Target

    if arguments.run_folder is not None:
        raise UserError(f"got both the run {arguments.run_folder} and --model; give one of them")
    for flag in ("data", "eps"):
        if getattr(arguments, flag) is None:
            raise UserError(f"--model needs --{flag} too")
    limits = threat.threat(arguments.norm or "linf", arguments.eps[0])
    source = _data(arguments)
    model, weights = external_model(arguments, source)
    split: Split = getattr(source, arguments.split)
    return Target(
        model=model,
        data=split if examples is None else split.first(examples),
        threat=limits,
        seed=arguments.seed,
        batch_size=arguments.batch_size,
        progress=mode(arguments),
        name=arguments.model if arguments.weights is None else f"{arguments.model} {arguments.weights}",
        data_name=f"{source.name} ({arguments.split})",
        class_names=tuple(source.classes),
        weights=weights,
    )


def _data(arguments: argparse.Namespace, seed: int = 0) -> Dataset:
    from soar import data

    framing = {"resize": arguments.resize, "crop": arguments.crop}
    return data.load(arguments.data, root=arguments.root, seed=seed, **framing)


def external_model(arguments: argparse.Namespace, data: Dataset) -> tuple[nn.Module, Weights | None]:
    """Build the model of --model for some data and load --weights; without them, warn about what it keeps.

    Args:
        arguments: with the flags of `add_model_flags`
        data: for the number of classes and the shape of images of a model of `soar list models`

    Raises:
        UserError: if it cannot be built, or the weights are not its own
    """
    from soar import models
    from soar.options import parse_spec

    if arguments.checkpoint is not None:
        raise UserError("--checkpoint goes with a run folder; give the weights of --model with --weights")
    name, options = parse_spec(arguments.model, "model")
    classes, shape = len(data.classes), data.shape
    model = models.build(name, seed=0, num_classes=classes, image_shape=shape, options={**options})
    if arguments.weights is None:
        # A model without training is legitimate, and some functions load weights themselves.
        text = f"no --weights: {arguments.model} keeps the weights that it is built with"
        warnings.warn(text, stacklevel=2)
        return model, None
    return model, models.load_external_weights(model, arguments.weights)
