"""Measure our attacks beside those of other libraries: same model, same images, same budget, one process.

    python benchmarks/attacks.py                    the bundled sample of Fashion-MNIST, linf 0.1
    python benchmarks/attacks.py --data cifar10     linf 8/255; needs `soar data fetch cifar10`
    python benchmarks/attacks.py --quick            tiny numbers in seconds, to see that it works
    python benchmarks/attacks.py --runs runs/a runs/b --attacks FAB-T standard --images 500 --name strength
    python benchmarks/attacks.py --networks fashion-mixer-pgd --attacks fast auto standard --name autoattack

Two small networks are trained first, one without defense and one by PGD, and kept in benchmarks/.cache; with
--runs trained networks of your own take their place, with their data and threat, and with --networks those
of networks.py.

The task is to measure robust accuracy. Every library gets the model in eval mode and all images, as its
documentation shows it. What counts is its own call, and the predictions for the points it returns where the
call does not return which of them fool the model. A wrapper around the model counts the forward and backward
passes of images. All results are then judged alike, outside the measurement: an image stays right if the
model classifies it and the returned point correctly, which must lie in the threat set. "right only" is the
careful user of a library that attacks misclassified images too: predict, then attack the others.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy
import torch
from rich.console import Console
from rich.table import Table
from safetensors.torch import load_file, save_file
from torch import nn

import networks
from peers import LIBRARIES, Counted, Task, predicted
from soar import data, models, objectives, runs
from soar.environment import environment
from soar.errors import UserError
from soar.threat import Linf

HERE = Path(__file__).parent
RADII = {"fashion-mnist-sample": "0.1", "cifar10": "8/255"}
PACKAGES = ("torchattacks", "foolbox", "adversarial-robustness-toolbox", "pyautoattack")


@dataclass(frozen=True)
class Size:
    """How much to measure, and how long to train for it."""

    images: int = 128
    repeats: int = 3
    steps: int = 20
    restarts: int = 5
    batch_size: int = 64
    width: int = 16
    training_images: int = 20_000
    standard_epochs: int = 4
    robust_epochs: int = 6
    auto_steps: int = 100
    queries: int = 5000


QUICK = Size(
    24, 1, 3, 2, 16, 8, training_images=512, standard_epochs=1, robust_epochs=1, auto_steps=4, queries=8
)


Pair = tuple[str, str]  # an attack and a library
Row = dict[str, Any]  # a line of the table


@dataclass(frozen=True)
class Measurement:
    """What one run of one attack of one library gave; passes are samples an image."""

    stays_right: int
    outside: int  # points outside the threat set; they do not count as fooling the model
    forwards: float
    backwards: float
    passes: float
    weight_gradients: bool  # whether gradients of the weights were computed as well
    cpu_seconds: float


def measure(library: str, attack: str, model: nn.Module, task: Task) -> Measurement:
    """Run an attack once, on a model on which no other has left anything."""
    model.requires_grad_(True)
    model.zero_grad(set_to_none=True)
    torch.manual_seed(task.seed)
    numpy.random.seed(task.seed)
    counted = Counted(model).eval()
    run = LIBRARIES[library](counted, task)[attack]
    # Some libraries ask the model while they are set up.
    counted.forwards = counted.backwards = 0
    began = time.process_time()
    points = run()
    seconds = time.process_time() - began
    inside = task.threat.contains(points, task.images)
    right, survives = (predicted(model, x, task.batch_size) == task.labels for x in (task.images, points))
    return Measurement(
        stays_right=int((right & (survives | ~inside)).sum()),
        outside=int((~inside).sum()),
        forwards=counted.forwards / len(points),
        backwards=counted.backwards / len(points),
        passes=(counted.forwards + counted.backwards) / len(points),
        weight_gradients=any(parameter.grad is not None for parameter in model.parameters()),
        cpu_seconds=seconds,
    )


def available(model: nn.Module, task: Task, say: Callable[[str], None]) -> list[Pair]:
    """List attacks and the installed libraries that have them, attack by attack, ours first."""
    found: dict[str, list[Pair]] = {}
    for library, make in LIBRARIES.items():
        try:
            for attack in make(Counted(model).eval(), task):
                found.setdefault(attack, []).append((attack, library))
        except ImportError as error:
            say(f"{library}: skipped, {error}; pip install -r benchmarks/requirements.txt")
    return [pair for pairs in found.values() for pair in pairs]


def measure_all(pairs: list[Pair], model: nn.Module, task: Task, repeats: int) -> list[Row]:
    """Measure every attack of every library `repeats` times, in turns, beside ours of the same turn."""
    runs: dict[Pair, list[Measurement]] = {pair: [] for pair in pairs}
    for attack, library in pairs:
        few = replace(task, images=task.images[:4], labels=task.labels[:4], auto_steps=2, queries=5)
        measure(library, attack, model, few)
    for repeat in range(repeats):
        for attack, library in pairs:
            found = measure(library, attack, model, replace(task, seed=repeat))
            runs[attack, library].append(found)
            print(f"{attack}, {library}: {found.cpu_seconds:.1f} s", file=sys.stderr, flush=True)
    return [summary(pair, found, runs.get((pair[0], "soar"))) for pair, found in runs.items()]


def summary(pair: Pair, runs: list[Measurement], ours: list[Measurement] | None) -> Row:
    """Return the medians of some runs, and of their ratios to ours where we have the same attack."""

    def values(name: str, of: list[Measurement] = runs) -> list[float]:
        return [getattr(run, name) for run in of]

    def ratio(name: str) -> float | None:
        if ours is None:
            return None
        return statistics.median(a / b for a, b in zip(values(name), values(name, ours), strict=True))

    return {
        "attack": pair[0],
        "library": pair[1],
        "stays_right": statistics.median_low(values("stays_right")),
        **{name: statistics.median(values(name)) for name in ("forwards", "backwards", "cpu_seconds")},
        "passes_ratio": ratio("passes"),
        "cpu_ratio": ratio("cpu_seconds"),
        "runs": [asdict(run) for run in runs],
    }


def trained(kind: str, source: data.Dataset, size: Size, threat: Linf, cache: Path) -> nn.Module:
    """Train a small residual network, or take it from the cache."""
    is_robust = kind == "PGD-trained"
    epochs = size.robust_epochs if is_robust else size.standard_epochs
    split = source.train.first(size.training_images)
    options = {"width": size.width, "norm": "batch"}
    model = models.build("resnet10", seed=0, image_shape=source.shape, options=options)
    weights = cache / f"{source.name}-{kind}-width{size.width}-{len(split)}x{epochs}.safetensors"
    if weights.exists():
        model.load_state_dict(load_file(weights))
        return model.eval()
    objective = objectives.Adversarial(model, threat, steps=3) if is_robust else objectives.Standard(model)
    batch_size = min(128, len(split) // 4)
    total = epochs * data.batches_per_epoch(split, batch_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=total)
    vary = data.Augmentation(crop_padding=2, flip=True)
    for epoch in range(epochs):
        for batch in data.training_batches(
            split, batch_size=batch_size, seed=0, epoch=epoch, augmentation=vary
        ):
            x, y, index = batch.on()
            optimizer.zero_grad()
            objective(x, y, index).loss.backward()
            optimizer.step()
            schedule.step()
    cache.mkdir(parents=True, exist_ok=True)
    save_file(model.state_dict(), weights)
    return model.eval()


def table(title: str, rows: list[Row]) -> Table:
    """Lay out the rows of one model."""
    sheet = Table("attack", "library", title=title, title_justify="left")
    for column in ("stay right", "forward", "backward", "CPU s", "passes / ours", "CPU / ours"):
        sheet.add_column(column, justify="right", no_wrap=True)
    for row, following in zip(rows, [*rows[1:], {"attack": None}], strict=True):
        ratios = ("-" if row[key] is None else f"{row[key]:.2f}" for key in ("passes_ratio", "cpu_ratio"))
        sheet.add_row(
            row["attack"],
            row["library"],
            str(row["stays_right"]),
            f"{row['forwards']:.1f}",
            f"{row['backwards']:.1f}{'*' if row['runs'][0]['weight_gradients'] else ' '}",
            f"{row['cpu_seconds']:.2f}",
            *ratios,
            end_section=following["attack"] != row["attack"],
        )
    return sheet


@dataclass(frozen=True)
class Subject:
    """A model, and what it is attacked on."""

    kind: str
    model: nn.Module
    data: str
    task: Task


def subjects(chosen: argparse.Namespace, size: Size) -> Iterator[Subject]:
    """Return the networks to measure: trained runs, or two small ones that are made for it."""
    for folder in chosen.runs or []:
        opened = runs.find(folder)
        source = opened.data()
        threat = opened.threat()
        if not isinstance(threat, Linf):
            raise UserError(f"--runs: {folder} was trained against {threat}, expected linf")
        model = opened.trained_model(source).eval()
        yield Subject(folder.name, model, source.name, as_task(source, threat, size))
    for name in chosen.networks or []:
        model, source, network = networks.load(name)
        if not isinstance(network.threat, Linf):
            raise UserError(f"--networks: {name} was trained against {network.threat}, expected linf")
        yield Subject(name, model, source.name, as_task(source, network.threat, size))
    if chosen.runs or chosen.networks:
        return
    source, threat = data.load(chosen.data, validation=0), Linf(RADII[chosen.data])
    for kind in ("undefended", "PGD-trained"):
        model = trained(kind, source, size, threat, chosen.cache)
        yield Subject(kind, model, source.name, as_task(source, threat, size))


def as_task(source: data.Dataset, threat: Linf, size: Size) -> Task:
    """Take the first test images."""
    test = source.test.first(size.images)
    return Task(
        threat,
        data.to_unit(test.images),
        test.labels,
        size.steps,
        size.restarts,
        size.batch_size,
        auto_steps=size.auto_steps,
        queries=size.queries,
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure every attack on every network, print and save."""
    chosen = parsed(arguments)
    torch.set_num_threads(1)
    size = QUICK if chosen.quick else Size()
    given = {name: getattr(chosen, name) for name in ("images", "repeats", "queries")}
    size = replace(size, **{name: value for name, value in given.items() if value is not None})
    console = Console(record=True, width=130)
    command = "python benchmarks/attacks.py " + " ".join(map(str, arguments or sys.argv[1:]))
    peers = {item.name: item.version for item in importlib.metadata.distributions() if item.name in PACKAGES}
    record: dict[str, Any] = {
        "environment": environment() | peers | {"command": command},
        "size": asdict(size),
    }
    for subject in subjects(chosen, size):
        task = subject.task
        pairs = available(subject.model, task, console.print)
        pairs = [
            (attack, library)
            for attack, library in pairs
            if (chosen.attacks is None or attack in chosen.attacks)
            and (chosen.libraries is None or library in chosen.libraries)
        ]
        right = int((predicted(subject.model, task.images, size.batch_size) == task.labels).sum())
        rows = measure_all(pairs, subject.model, task, size.repeats)
        record[subject.kind] = {"threat": str(task.threat), "data": subject.data}
        record[subject.kind] |= {"images": len(task.labels), "right": right, "rows": rows}
        title = f"{subject.kind}, {subject.data}, {task.threat}: {right} of {len(task.labels)} are right"
        console.print(table(title, rows))
    console.print("forward, backward: samples an image; *: with the gradients of the weights")
    console.print(
        f"medians of {size.repeats} runs in turns, one thread, batches of {size.batch_size}: {command}"
    )
    if chosen.out or not chosen.quick:
        folder = chosen.out or HERE / "results"
        folder.mkdir(parents=True, exist_ok=True)
        name = chosen.name or f"attacks-{chosen.data}"
        (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        (folder / f"{name}.txt").write_text(console.export_text())


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """Read the flags."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", choices=sorted(RADII), default="fashion-mnist-sample")
    parser.add_argument("--runs", nargs="+", type=Path, help="run folders of networks to attack instead")
    parser.add_argument("--networks", nargs="+", choices=sorted(networks.NETWORKS), metavar="NAME")
    parser.add_argument("--attacks", nargs="+", help="only these, such as PGD-20 APGD-CE FAB-T standard")
    parser.add_argument("--libraries", nargs="+", help="only these, such as soar pyautoattack")
    parser.add_argument("--images", type=int)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--queries", type=int, help="of Square")
    parser.add_argument("--quick", action="store_true", help="tiny numbers, seconds")
    parser.add_argument("--out", type=Path, help="folder of the result files; --quick saves none without it")
    parser.add_argument("--name", help="of the result files")
    parser.add_argument("--cache", type=Path, default=HERE / ".cache", help="folder of trained weights")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
