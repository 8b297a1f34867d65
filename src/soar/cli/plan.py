"""`soar train RECIPE --plan`: the cost of a training run, before it begins."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.common import set_up_machine, width
from soar.errors import UserError
from soar.text import beside, duration, percent

if TYPE_CHECKING:
    from soar.cost.training import TrainingCost
    from soar.recipes import Recipe
    from soar.training import Trainer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that ask for a plan."""
    parser.add_argument("--plan", action="store_true", help="show what it would take, and train nothing")
    parser.add_argument(
        "--tflops",
        type=float,
        metavar="N",
        help="with --plan: measure no time, assume N x 10^12 operations a second in each process",
    )


def print_plan(arguments: argparse.Namespace, recipe: Recipe) -> None:
    """Measure or count the cost of a training run, and print it.

    Args:
        arguments: arguments of `soar train`
        recipe: the recipe of the training
    """
    from soar.distributed import joined
    from soar.runs import Run
    from soar.training.prepare import prepare

    device = set_up_machine(arguments)
    recipe, start = _without_missing_start(recipe)
    with joined(device) as world:
        # The folder is never made.
        run = Run(arguments.output or Path(arguments.recipe), recipe)
        trainer = prepare(run, device=device, root=arguments.root, progress="quiet")
        cost, origin = _measured(trainer, arguments)
        if world.is_main:
            for name, text in _rows(recipe, trainer, cost, origin, start):
                print(beside(name, text, left=12, width=width()))


def _without_missing_start(recipe: Recipe) -> tuple[Recipe, str]:
    """Return the recipe and a description of its initial weights; missing ones do not change the cost."""
    from soar.runs import start_weights

    source = recipe.training.start_from
    if source is None:
        return recipe, ""
    try:
        start_weights(source)
    except UserError:
        recipe = replace(recipe, training=replace(recipe.training, start_from=None))
        return recipe, f"the weights of {source}, which are not there yet"
    return recipe, f"the weights of {source}"


def _measured(trainer: Trainer, arguments: argparse.Namespace) -> tuple[TrainingCost, str]:
    """Return the cost and the origin of its seconds."""
    import torch

    from soar.cost.training import count_training, measure_training

    if arguments.tflops is not None:
        return _within_minutes(count_training(trainer).at_rate(arguments.tflops), trainer), "assumed"
    if trainer.world.is_main and not arguments.quiet:
        print("measuring a few updates ...", file=sys.stderr)
    device, threads = trainer.device.type, torch.get_num_threads()
    place = f"cpu, {threads} {'thread' if threads == 1 else 'threads'}" if device == "cpu" else device
    is_cpu_time = trainer.training.minutes is not None and trainer.training.clock == "cpu"
    cost = measure_training(trainer, time.process_time if is_cpu_time else time.perf_counter)
    origin = f"measured here: {place}{', CPU time' if is_cpu_time else ''}"
    return _within_minutes(cost, trainer), origin


def _within_minutes(cost: TrainingCost, trainer: Trainer) -> TrainingCost:
    """Return the cost of what the recipe's minutes allow, where it has any."""
    settings = trainer.training
    if settings.minutes is None:
        return cost
    period = trainer.validation.every * trainer.steps_per_epoch
    return cost.within(60 * settings.minutes, period, settings.max_steps)


def _rows(
    recipe: Recipe, trainer: Trainer, cost: TrainingCost, origin: str, start: str
) -> list[tuple[str, str]]:
    data, batch, shared = trainer.data, trainer.training.batch_size, cost.processes > 1
    shape = " x ".join(map(str, data.shape))
    each = f" ({batch // cost.processes} in each of {cost.processes} processes)" if shared else ""
    rows = [
        ("data", f"{data.name}: {len(data.train):,} images of {shape}, {len(data.validation):,} held out"),
        ("model", f"{recipe.model['name']}: {cost.parameters:,} parameters"),
        *([("start", start)] if start else []),
        ("objective", f"{recipe.objective['name']} within {trainer.threat}"),
        ("batches", f"{batch} images{each}, {cost.updates_per_epoch:,} per epoch"),
        ("updates", _number_of_updates(cost, trainer.training.minutes)),
        *_updates(cost),
        *_validation(cost),
    ]
    if cost.mebibytes is not None:
        held = "on the GPU" if trainer.device.type == "cuda" else "of this process, data and all"
        rows.append(("memory", f"{cost.mebibytes:,.0f} MiB at the peak {held}"))
    if shared:
        rows.append(("exchange", f"{cost.exchanged / 2**20:.3g} MiB per update and process"))
    seconds = cost.seconds or 0.0
    rate = _number(cost.flop / seconds / cost.processes / 1e9)
    whole = f"{duration(seconds)}, {duration(seconds / cost.epochs)} per epoch"
    rows.append(("arithmetic", f"{cost.flop / 1e12:,.4g} TFLOP in all"))
    rows.append(("time", f"{whole} ({origin}, {rate} GFLOP/s{' per process' if shared else ''})"))
    return rows


def _number_of_updates(cost: TrainingCost, minutes: float | None) -> str:
    if minutes is None:
        return f"{cost.number:,} in {cost.epochs:g} epochs"
    return f"about {cost.number:,} in {minutes:g} minutes, {cost.epochs:.3g} epochs"


def _updates(cost: TrainingCost) -> list[tuple[str, str]]:
    rows = []
    for phase in cost.updates:
        seconds = phase.seconds or 0.0
        each = 1000 * seconds / (phase.forwards + phase.backwards)
        passes = f"{phase.forwards} forward and {phase.backwards} backward passes"
        timed = f"{_number(seconds)} s, {_number(each)} ms per pass"
        name = f"{phase.times:,} of them" if len(cost.updates) > 1 else "an update"
        rows.append((name, f"{passes}, {phase.flop / 1e9:,.4g} GFLOP; {timed}"))
    return rows


def _validation(cost: TrainingCost) -> list[tuple[str, str]]:
    phase = cost.validation
    if phase is None:
        return [("validation", "none, because no images are held out")]
    passes = f"at most {phase.forwards} forward and {phase.backwards} backward passes each"
    share = f"{percent(cost.validation_share)} of the time, if {phase.needed:.0%} of these passes are needed"
    text = f"{phase.times} times {phase.images:,} images, {passes}; {_number(phase.seconds or 0.0)} s"
    return [("validation", text), ("", share)]


def _number(value: float) -> str:
    """Format a number with three significant digits, and never with an exponent.

    >>> _number(0.30719), _number(17.81), _number(10000.4), _number(0.000546)
    ('0.307', '17.8', '10,000', '0.000546')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
