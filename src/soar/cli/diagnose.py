"""`soar diagnose`: is a model robust, or does it only hide its gradients?"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.common import add_deterministic_flag, add_machine_flags, set_up_machine
from soar.cli.target import add_target_flags, result_file, target, target_words
from soar.errors import UserError

if TYPE_CHECKING:
    from torch import nn

    from soar.evaluation.target import Target

DESCRIPTION = "Look for gradient masking: nine checks, their numbers, and a verdict."
EXAMPLES = 200
# Each takes as long as an attack.
MOST_SOURCES = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to diagnose and how."""
    add_target_flags(parser, examples=f"default: {EXAMPLES}")
    parser.add_argument(
        "--source",
        type=Path,
        action="append",
        default=[],
        metavar="RUN",
        help="another run on the same data, whose adversarial images are tried on this one (may be repeated)",
    )
    parser.add_argument(
        "--features",
        metavar="NAME",
        help="the module of the model whose output is taken for its features, such as layer4 (default: what"
        " its last linear layer takes)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: RUN/diagnosis.json, or the next free name"
    )
    add_machine_flags(parser)
    add_deterministic_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run all checks, print the verdict and save the diagnosis."""
    from rich.console import Console

    from soar.distributed import joined
    from soar.evaluation.diagnose import diagnose_target
    from soar.evaluation.journal import remove_journals
    from soar.evaluation.table import verdict_table

    device = set_up_machine(arguments)
    given = target(arguments, examples=EXAMPLES)
    sources = _sources(arguments, given)
    with joined(device) as world, result_file(arguments, "diagnosis", world) as output:
        journal = output.with_suffix(".partial.jsonl")
        for model in (given.model, *sources.values()):
            model.to(world.device(device))
        say = print if world.is_main and not arguments.quiet else lambda _: None
        try:
            found = diagnose_target(
                given, sources=sources, features=arguments.features, journal=journal, say=say
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
        if world.is_main:
            Console().print(verdict_table(found, target_words(arguments), neighbors(arguments, given)))
            found.save(output)
            remove_journals(journal)
            print(f"saved {output}")
    return 0


def neighbors(arguments: argparse.Namespace, given: Target) -> list[str]:
    """Return the other runs beside this one on data of the same name, of which none was used as a source."""
    from soar import runs

    if arguments.run_folder is None:
        return []
    own, found = arguments.run_folder.resolve(), []
    for path in sorted(arguments.run_folder.parent.iterdir()):
        try:
            other = runs.find(path)
        except UserError:
            continue
        is_used = path.resolve() in (own, *(source.resolve() for source in arguments.source))
        if not is_used and given.data_name.startswith(f"{other.recipe.data.name} ("):
            found.append(shlex.quote(str(path)))
    return found[:MOST_SOURCES]


def _sources(arguments: argparse.Namespace, given: Target) -> dict[str, nn.Module]:
    """Open the runs whose adversarial images are tried.

    Raises:
        UserError: if one of them takes other images or knows other classes
    """
    from soar import runs

    models = {}
    for path in arguments.source:
        opened = runs.find(path)
        own = opened.data(arguments.root)
        for name, got, expected in (
            ("images of shape", own.shape, tuple(given.stored.shape[1:])),
            ("a number of classes of", len(own.classes), len(given.class_names)),
        ):
            if got != expected:
                raise UserError(f"--source: {path} has {name} {got}, expected {expected}")
        models[str(path)] = opened.trained_model(own)
    return models
