"""`soar train`: train a model by a recipe."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soar.cli import plan
from soar.cli.common import add_machine_flags, mode, set_up_machine
from soar.errors import UserError
from soar.text import percent

if TYPE_CHECKING:
    from soar.recipes import Recipe
    from soar.runs import Run
    from soar.training import FitResult

DESCRIPTION = "Train a model by a recipe; any field of the recipe can be set by a flag."


class _Help(argparse._HelpAction):
    """Add the list of fields to the help; reading it from the sources takes time, so only on demand."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: Any, **named: Any) -> None:
        from soar.recipes.overrides import help_text

        parser.epilog = help_text()
        super().__call__(parser, *rest, **named)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the recipe and the flags that are not fields of it."""
    parser.add_argument("-h", "--help", action=_Help, help="show this and every field of a recipe")
    parser.usage = "soar train RECIPE [--FIELD VALUE ...] | soar train --resume RUN"
    parser.add_argument(
        "recipe", nargs="?", metavar="RECIPE", help="a name of `soar list recipes`, or FILE.toml"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="the run folder (default: runs/RECIPE)")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with an interrupted run")
    parser.add_argument(
        "--track", action="append", default=[], metavar="SINK", help="also log to tensorboard or wandb"
    )
    plan.add_arguments(parser)
    add_machine_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train, and print the result and how to evaluate it; or only print what it would take."""
    from soar.distributed import joined
    from soar.training.prepare import prepare
    from soar.training.tracking import open_sinks

    if arguments.plan:
        if arguments.resume is not None:
            raise UserError("--plan: got together with --resume, expected a RECIPE")
        plan.print_plan(arguments, _recipe(arguments))
        return 0
    if arguments.tflops is not None:
        raise UserError("--tflops: got without --plan, which it belongs to")
    device = set_up_machine(arguments)
    with joined(device) as world:
        opened = world.on_main(lambda: _open(arguments))
        sinks = []
        if world.is_main:
            sinks = open_sinks(arguments.track, opened.path, opened.recipe.as_table())
        trainer = prepare(
            opened,
            device=device,
            root=arguments.root,
            progress=mode(arguments),
            sinks=sinks,
            resume=arguments.resume is not None,
        )
        if arguments.resume is None:
            world.on_main(opened.create)
        result = trainer.fit()
        if world.is_main:
            _print_result(opened, result, quiet=arguments.quiet)
    if result.status == "interrupted":
        return 128 + signal.Signals[result.reason].value
    return 1 if result.status == "stopped" else 0


def _open(arguments: argparse.Namespace) -> Run:
    """Choose a new run folder, or find the one to go on with."""
    from soar import runs

    if arguments.resume is not None:
        if arguments.recipe or arguments.fields or arguments.output:
            raise UserError(
                "--resume goes on with the recipe of the run; give no recipe, no --output and no fields"
            )
        return runs.find(arguments.resume)
    recipe = _recipe(arguments)
    return runs.plan(recipe, arguments.output or runs.free_path(Path(arguments.recipe).stem))


def _recipe(arguments: argparse.Namespace) -> Recipe:
    from soar import recipes

    if arguments.recipe is None:
        raise UserError("which recipe? Say soar train RECIPE; see `soar list recipes`")
    return recipes.load(arguments.recipe, arguments.fields)


def _print_result(opened: Run, result: FitResult, *, quiet: bool) -> None:
    if result.status == "stopped":
        print(f"soar: stopped: {result.reason}; last good checkpoint: {result.best}", file=sys.stderr)
    if quiet:
        return
    if result.status == "interrupted":
        print(f"interrupted by {result.reason}; go on with: soar train --resume {opened.path}")
        return
    if result.best_scores is not None:
        scores = result.best_scores
        robust = "" if scores.robust is None else f", robust {percent(scores.robust)}"
        print(f"best on validation: clean {percent(scores.clean)}{robust} (step {scores.step})")
    print(f"{opened.path}; evaluate it with: soar evaluate {opened.path}")
