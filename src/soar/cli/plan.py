"""`soar train RECIPE --plan`: what a training would take, told before it begins."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from soar.cli.common import set_up_machine
from soar.device import choose
from soar.errors import UserError
from soar.text import duration, percent

if TYPE_CHECKING:
    from soar.cost.training import TrainingCost
    from soar.runs import Run
    from soar.training import Trainer

_WIDTH = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that ask for a plan."""
    parser.add_argument("--plan", action="store_true", help="say what it would take, and train nothing")
    parser.add_argument(
        "--tflops",
        type=float,
        metavar="N",
        help="with --plan: measure no time, assume N x 10^12 operations a second in each process",
    )


def tell(opened: Run, arguments: argparse.Namespace) -> None:
    """Measure, or only count where there is nothing to measure on, and print what was found.

    Args:
        opened: the run; its folder is not made
        arguments: of `soar train`
    """
    from soar.distributed import joined
    from soar.training.prepare import prepare

    is_there = _is_there(arguments.device)
    device = set_up_machine(arguments) if is_there else "cpu"
    opened, start = _with_present_start(opened)
    with joined(device) as world:
        trainer = prepare(opened, device=device, root=arguments.root, progress="quiet")
        cost, origin = _found(trainer, arguments, device if is_there else None)
        if world.is_main:
            print("\n".join(_lines(opened, trainer, cost, origin, start)))


def _with_present_start(opened: Run) -> tuple[Run, str]:
    """Return the run and what it starts from; weights that are not there yet do not change the cost."""
    from soar.runs import start_weights

    source = opened.recipe.training.start_from
    if source is None:
        return opened, ""
    try:
        start_weights(source)
    except UserError:
        training = replace(opened.recipe.training, start_from=None)
        without = replace(opened, recipe=replace(opened.recipe, training=training))
        return without, f"the weights of {source}, which are not there yet"
    return opened, f"the weights of {source}"


def _found(trainer: Trainer, arguments: argparse.Namespace, device: str | None) -> tuple[TrainingCost, str]:
    """Return the cost and say where its seconds come from; without a device none are measured."""
    from soar.cost.training import count_training, measure_training

    if arguments.tflops is not None:
        return count_training(trainer).at_rate(arguments.tflops), "assumed"
    if device is None:
        return count_training(trainer), f"no {arguments.device} here to measure on; --tflops N assumes a rate"
    if trainer.world.is_main and not arguments.quiet:
        print("measuring a few updates ...", file=sys.stderr)
    return measure_training(trainer), f"measured here: {_place(device)}"


def _is_there(device: str) -> bool:
    """Return whether the machine has a device; a name that no machine has is a mistake."""
    try:
        choose(device)
    except UserError:
        if device not in ("cuda", "mps"):
            raise
        return False
    return True


def _place(device: str) -> str:
    import torch

    threads = torch.get_num_threads()
    return device if device != "cpu" else f"cpu, {threads} {'thread' if threads == 1 else 'threads'}"


def _lines(opened: Run, trainer: Trainer, cost: TrainingCost, origin: str, start: str) -> list[str]:
    recipe, data, batch = opened.recipe, trainer.data, trainer.training.batch_size
    shape = " x ".join(map(str, data.shape))
    shared = f" ({batch // cost.processes} in each of {cost.processes} processes)"
    each = shared if cost.processes > 1 else ""
    rows = [
        ("data", f"{data.name}: {len(data.train):,} images of {shape}, {len(data.validation):,} held out"),
        ("model", f"{recipe.model['name']}: {cost.parameters:,} parameters"),
        *([("start", start)] if start else []),
        ("objective", f"{recipe.objective['name']} within {trainer.threat}"),
        ("batches", f"{batch} images{each}, {cost.updates_per_epoch:,} an epoch"),
        ("updates", f"{cost.number:,} in {cost.epochs:g} epochs"),
        *_of_updates(cost),
        *_of_validation(cost),
    ]
    if cost.mebibytes is not None:
        held = "on the GPU" if trainer.device.type == "cuda" else "of this process, data and all"
        rows.append(("memory", f"{cost.mebibytes:,.0f} MiB at the peak {held}"))
    rows.append(("arithmetic", f"{cost.flop / 1e12:,.4g} TFLOP in all"))
    rows.append(("time", _time(cost, origin)))
    return [f"{name:<{_WIDTH}}{text}" for name, text in rows] + _of_processes(trainer, cost)


def _of_updates(cost: TrainingCost) -> list[tuple[str, str]]:
    rows = []
    for work in cost.updates:
        text = f"{work.forwards} passes forwards and {work.backwards} backwards, {work.flop / 1e9:,.4g} GFLOP"
        if work.seconds is not None and work.pass_seconds is not None:
            text += f"; {_number(work.seconds)} s, {_number(1000 * work.pass_seconds)} ms a pass"
        rows.append((f"{work.times:,} of them" if len(cost.updates) > 1 else "an update", text))
    return rows


def _of_validation(cost: TrainingCost) -> list[tuple[str, str]]:
    work = cost.validation
    if work is None:
        return [("validation", "none, because no images are held out")]
    each = "" if work.seconds is None else f"; {_number(work.seconds)} s"
    what = "work" if cost.seconds is None else "time"
    most = f"at most {work.forwards} passes forwards and {work.backwards} backwards each{each}"
    share = f"{percent(cost.validation_share)} of the {what}"
    return [
        ("validation", f"{work.times} times {work.images:,} images, {most}"),
        ("", f"{share}, if {work.needed:.0%} of these passes are needed"),
    ]


def _time(cost: TrainingCost, origin: str) -> str:
    if cost.seconds is None:
        return f"unknown ({origin})"
    rate = cost.flop / cost.seconds / cost.processes / 1e9
    each = " a process" if cost.processes > 1 else ""
    whole = f"{duration(cost.seconds)}, {duration(cost.seconds / cost.epochs)} an epoch"
    return f"{whole} ({origin}, {_number(rate)} GFLOP/s{each})"


def _of_processes(trainer: Trainer, cost: TrainingCost) -> list[str]:
    """Say what other numbers of processes would change, at best."""
    from soar.cost.training import divisions

    settings = trainer.training
    lines = ["", "processes  images each  MiB exchanged an update  time at best"]
    for number in divisions(settings.batch_size, settings.accumulate):
        if number < cost.processes:
            continue
        other = cost.among(number)
        spent = "unknown" if other.seconds is None else duration(other.seconds)
        each = settings.batch_size // number
        lines.append(f"{number:>9}  {each:>11}  {other.exchanged / 2**20:>23.3g}  {spent:>12}")
    where = "the same hardware" if cost.seconds is not None else "hardware"
    return [*lines, f"At best: every process has {where} of its own, and the exchange takes no time."]


def _number(value: float) -> str:
    """Write a number with three digits that count, and never with an exponent.

    >>> _number(0.30719), _number(17.81), _number(10000.4), _number(0.000546)
    ('0.307', '17.8', '10,000', '0.000546')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
