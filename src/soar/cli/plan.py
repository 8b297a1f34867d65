"""`soar train RECIPE --plan`: the cost of a training run, before it begins."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.common import set_up_machine
from soar.environment import choose_device
from soar.errors import UserError
from soar.text import duration, percent

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
    """Measure the cost of a training run, or only count where there is nothing to measure on, and print it.

    Args:
        arguments: arguments of `soar train`
        recipe: the recipe of the training
    """
    from soar.distributed import joined
    from soar.runs import Run
    from soar.training.prepare import prepare

    has_device = _has(arguments.device)
    device = set_up_machine(arguments) if has_device else "cpu"
    recipe, start = _without_missing_start(recipe)
    with joined(device) as world:
        # The folder is never made.
        run = Run(arguments.output or Path(arguments.recipe), recipe)
        trainer = prepare(run, device=device, root=arguments.root, progress="quiet")
        cost, origin = _measured(trainer, arguments, device if has_device else None)
        if world.is_main:
            print("\n".join([*_lines(recipe, trainer, cost, origin, start), *_processes(trainer, cost)]))


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


def _measured(
    trainer: Trainer, arguments: argparse.Namespace, device: str | None
) -> tuple[TrainingCost, str]:
    """Return the cost and the origin of its seconds; without a device none are measured."""
    import torch

    from soar.cost.training import count_training, measure_training

    if arguments.tflops is not None:
        return count_training(trainer).at_rate(arguments.tflops), "assumed"
    if device is None:
        return count_training(trainer), f"no {arguments.device} here to measure on; --tflops N assumes a rate"
    if trainer.world.is_main and not arguments.quiet:
        print("measuring a few updates ...", file=sys.stderr)
    threads = torch.get_num_threads()
    place = f"cpu, {threads} {'thread' if threads == 1 else 'threads'}" if device == "cpu" else device
    return measure_training(trainer), f"measured here: {place}"


def _has(device: str) -> bool:
    """Return whether the machine has a device; a name that no machine has is a mistake."""
    try:
        choose_device(device)
    except UserError:
        if device not in ("cuda", "mps"):
            raise
        return False
    return True


def _lines(recipe: Recipe, trainer: Trainer, cost: TrainingCost, origin: str, start: str) -> list[str]:
    data, batch = trainer.data, trainer.training.batch_size
    shape = " x ".join(map(str, data.shape))
    shared = f" ({batch // cost.processes} in each of {cost.processes} processes)"
    each = shared if cost.processes > 1 else ""
    rows = [
        ("data", f"{data.name}: {len(data.train):,} images of {shape}, {len(data.validation):,} held out"),
        ("model", f"{recipe.model['name']}: {cost.parameters:,} parameters"),
        *([("start", start)] if start else []),
        ("objective", f"{recipe.objective['name']} within {trainer.threat}"),
        ("batches", f"{batch} images{each}, {cost.updates_per_epoch:,} per epoch"),
        ("updates", f"{cost.number:,} in {cost.epochs:g} epochs"),
        *_updates(cost),
        *_validation(cost),
    ]
    if cost.mebibytes is not None:
        held = "on the GPU" if trainer.device.type == "cuda" else "of this process, data and all"
        rows.append(("memory", f"{cost.mebibytes:,.0f} MiB at the peak {held}"))
    rows.append(("arithmetic", f"{cost.flop / 1e12:,.4g} TFLOP in all"))
    rows.append(("time", _time(cost, origin)))
    return [f"{name:<12}{text}" for name, text in rows]


def _updates(cost: TrainingCost) -> list[tuple[str, str]]:
    rows = []
    for phase in cost.updates:
        passes = f"{phase.forwards} forward and {phase.backwards} backward passes"
        timed = ""
        if phase.seconds is not None:
            each = 1000 * phase.seconds / (phase.forwards + phase.backwards)
            timed = f"; {_number(phase.seconds)} s, {_number(each)} ms per pass"
        name = f"{phase.times:,} of them" if len(cost.updates) > 1 else "an update"
        rows.append((name, f"{passes}, {phase.flop / 1e9:,.4g} GFLOP{timed}"))
    return rows


def _validation(cost: TrainingCost) -> list[tuple[str, str]]:
    phase = cost.validation
    if phase is None:
        return [("validation", "none, because no images are held out")]
    timed = "" if phase.seconds is None else f"; {_number(phase.seconds)} s"
    passes = f"at most {phase.forwards} forward and {phase.backwards} backward passes each{timed}"
    share = f"{percent(cost.validation_share)} of the {'work' if cost.seconds is None else 'time'}"
    return [
        ("validation", f"{phase.times} times {phase.images:,} images, {passes}"),
        ("", f"{share}, if {phase.needed:.0%} of these passes are needed"),
    ]


def _time(cost: TrainingCost, origin: str) -> str:
    if cost.seconds is None:
        return f"unknown ({origin})"
    rate = cost.flop / cost.seconds / cost.processes / 1e9
    each = " per process" if cost.processes > 1 else ""
    whole = f"{duration(cost.seconds)}, {duration(cost.seconds / cost.epochs)} per epoch"
    return f"{whole} ({origin}, {_number(rate)} GFLOP/s{each})"


def _processes(trainer: Trainer, cost: TrainingCost) -> list[str]:
    """Return a table of the time at best with other numbers of processes."""
    from soar.cost.training import divisions

    size = trainer.training.batch_size
    lines = ["", "processes  images each  MiB exchanged an update  time at best"]
    for number in divisions(size, trainer.training.accumulation_steps):
        if number >= cost.processes:
            other = cost.among(number)
            spent = "unknown" if other.seconds is None else duration(other.seconds)
            exchanged = other.exchanged / 2**20
            lines.append(f"{number:>9}  {size // number:>11}  {exchanged:>23.3g}  {spent:>12}")
    where = "the same hardware" if cost.seconds is not None else "hardware"
    return [*lines, f"At best: every process has {where} of its own, and the exchange takes no time."]


def _number(value: float) -> str:
    """Format a number with three significant digits, and never with an exponent.

    >>> _number(0.30719), _number(17.81), _number(10000.4), _number(0.000546)
    ('0.307', '17.8', '10,000', '0.000546')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
