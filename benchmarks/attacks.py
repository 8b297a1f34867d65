"""Measure our attacks beside those of other libraries: same model, same images, same budget, one process.

    python benchmarks/attacks.py                    the bundled sample of Fashion-MNIST, linf 0.1
    python benchmarks/attacks.py --data cifar10     linf 8/255; needs `soar data fetch cifar10`
    python benchmarks/attacks.py --quick            tiny numbers in seconds, to see that it works

Two small networks are trained first, one without defence and one by PGD, and kept in benchmarks/.cache.

The task is to say how many images stay right. Every library gets the model in eval mode and all images, as
its documentation shows it. What counts is its own call, and the prediction of the points it returns where
the call does not tell which of them fool the model. A wrapper around the model counts the samples that go
forwards and backwards. One judge then decides for everybody, outside the measurement: an image stays right if
the model is right on it and on the returned point, which must lie in the threat set. "right only" is the
careful user of a library that attacks misclassified images too: predict, then attack the others.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import torch
from rich.console import Console
from rich.table import Table
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from soar import attacks, data, models, objectives
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


QUICK = Size(24, 1, 3, 2, 16, width=8, training_images=512, standard_epochs=1, robust_epochs=1)


Pair = tuple[str, str]  # an attack and a library
Row = dict[str, Any]  # a line of the table
Runs = dict[str, Callable[[], Tensor]]
"""For each attack of a library, a call that attacks all images and gives the points that were found."""


@dataclass(frozen=True)
class Task:
    """What every library is given."""

    threat: Linf
    images: Tensor
    labels: Tensor
    steps: int
    restarts: int
    batch_size: int
    seed: int = 0

    @property
    def step_size(self) -> Fraction:
        """A quarter of the radius: 2/255 for 8/255."""
        return self.threat.eps / 4

    @property
    def names(self) -> tuple[str, str, str]:
        """The attacks that the libraries have in common."""
        return "FGSM", f"PGD-{self.steps}", f"PGD-{self.steps} x{self.restarts}"

    def named(self, run: Callable[[Any], Tensor], recipes: tuple[Any, Any, Any]) -> Runs:
        """Name a library's versions of those attacks."""
        return {name: partial(run, recipe) for name, recipe in zip(self.names, recipes, strict=True)}


class Counted(nn.Module):
    """A model that counts the samples that go through it, forwards and backwards."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.forwards = self.backwards = 0

    def forward(self, x: Tensor) -> Tensor:
        """Count and pass on."""
        self.forwards += len(x)
        logits: Tensor = self.model(x)
        if logits.requires_grad:
            logits.register_hook(self.count_backward)
        return logits

    def count_backward(self, gradient: Tensor) -> None:
        """Count the samples of a gradient that comes back."""
        self.backwards += len(gradient)


def ours(model: Counted, task: Task) -> Runs:
    """Our attacks; each run checks the engine's own count of passes against the model's."""

    def run(attack: attacks.PGD) -> Tensor:
        found = attacks.run(
            model, attack, task.threat, task.images, task.labels, seed=task.seed, batch_size=task.batch_size
        )
        claimed = int(found.forward.sum()), int(found.backward.sum())
        counted = model.forwards, model.backwards
        if claimed != counted:
            raise SystemExit(f"{attack.label}: the engine counts {claimed} passes, the model {counted}")
        return found.adversarial

    pgd = attacks.PGD(steps=task.steps, step_size=task.step_size)
    return task.named(run, (attacks.FGSM(), pgd, replace(pgd, restarts=task.restarts)))


def torchattacks(model: Counted, task: Task) -> Runs:
    """FGSM and PGD of torchattacks, restarts by its MultiAttack; it returns points only."""
    import torchattacks as library

    eps, alpha = task.threat.radius, float(task.step_size)
    pgd = [library.PGD(model, eps, alpha, task.steps) for _ in range(task.restarts)]
    chosen = (library.FGSM(model, eps), pgd[0], library.MultiAttack(pgd))
    return task.named(lambda attack: by_batches(attack, task, model), chosen)


def torchattacks_right_only(model: Counted, task: Task) -> Runs:
    """The same, behind a prediction of the clean images."""
    torchattacks(model, task)

    def run(name: str) -> Tensor:
        right = predicted(model, task.images, task.batch_size) == task.labels
        points = task.images.clone()
        if right.any():
            subset = replace(task, images=task.images[right], labels=task.labels[right])
            points[right] = torchattacks(model, subset)[name]()
        return points

    return task.named(run, task.names)


def foolbox(model: Counted, task: Task) -> Runs:
    """FGSM and PGD of foolbox, restarts by `repeat`; it tells which points fool the model."""
    import foolbox as library

    wrapped = library.PyTorchModel(model, bounds=(0, 1), device="cpu")
    pgd = library.attacks.LinfPGD(abs_stepsize=float(task.step_size), steps=task.steps)
    fgsm = library.attacks.LinfFastGradientAttack()

    def run(attack: Any) -> Tensor:
        return by_batches(lambda x, y: attack(wrapped, x, y, epsilons=task.threat.radius)[1], task)

    return task.named(run, (fgsm, pgd, pgd.repeat(task.restarts)))


def art(model: Counted, task: Task) -> Runs:
    """FGSM and PGD of the Adversarial Robustness Toolbox; it returns points only."""
    from art.attacks.evasion import FastGradientMethod, ProjectedGradientDescent
    from art.estimators.classification import PyTorchClassifier

    shape, loss = tuple(task.images.shape[1:]), nn.CrossEntropyLoss()
    classifier = PyTorchClassifier(model, loss, shape, 10, clip_values=(0.0, 1.0), device_type="cpu")
    common = {"eps": task.threat.radius, "batch_size": task.batch_size}
    steps = {"eps_step": float(task.step_size), "max_iter": task.steps, "verbose": False}
    pgd = partial(ProjectedGradientDescent, classifier, **common, **steps)
    fgsm = FastGradientMethod(classifier, **common)

    def run(attack: Any) -> Tensor:
        points = torch.from_numpy(attack.generate(task.images.numpy(), task.labels.numpy()))
        predicted(model, points, task.batch_size)
        return points

    return task.named(run, (fgsm, pgd(num_random_init=1), pgd(num_random_init=task.restarts)))


def pyautoattack(model: Counted, task: Task) -> Runs:
    """APGD-CE of AutoAttack: another attack with five times the steps, a reference for strength."""
    from pyautoattack.autopgd_base import APGDAttack

    steps = 5 * task.steps
    attack = APGDAttack(model, n_iter=steps, eps=task.threat.radius, seed=task.seed, device="cpu")
    return {f"APGD-CE {steps} (reference)": partial(by_batches, attack.perturb, task, model)}


LIBRARIES: dict[str, Callable[[Counted, Task], Runs]] = {
    "soar": ours,
    "torchattacks": torchattacks,
    "torchattacks, right only": torchattacks_right_only,
    "foolbox": foolbox,
    "ART": art,
    "pyautoattack": pyautoattack,
}


def by_batches(attack: Callable[..., Tensor], task: Task, judge: nn.Module | None = None) -> Tensor:
    """Attack batch after batch; predict the points with `judge` where the library gives no verdict."""
    batches = zip(task.images.split(task.batch_size), task.labels.split(task.batch_size), strict=True)
    points = torch.cat([attack(x, y) for x, y in batches])
    if judge is not None:
        predicted(judge, points, task.batch_size)
    return points


def predicted(model: nn.Module, images: Tensor, batch_size: int) -> Tensor:
    """Give the most likely classes."""
    return attacks.predict(model, images, batch_size).argmax(dim=1)


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


def available(task: Task, say: Callable[[str], None]) -> list[Pair]:
    """List attacks and the installed libraries that have them, attack by attack, ours first."""
    found: dict[str, list[Pair]] = {}
    for library, make in LIBRARIES.items():
        try:
            for attack in make(Counted(nn.Linear(1, 10)).eval(), task):
                found.setdefault(attack, []).append((attack, library))
        except ImportError as error:
            say(f"{library}: skipped, {error}; pip install -r benchmarks/requirements.txt")
    return [pair for pairs in found.values() for pair in pairs]


def measure_all(pairs: list[Pair], model: nn.Module, task: Task, repeats: int) -> list[Row]:
    """Measure every attack of every library `repeats` times, in turns, beside ours of the same turn."""
    runs: dict[Pair, list[Measurement]] = {pair: [] for pair in pairs}
    for attack, library in pairs:
        measure(library, attack, model, replace(task, images=task.images[:4], labels=task.labels[:4]))
    for repeat in range(repeats):
        for attack, library in pairs:
            runs[attack, library].append(measure(library, attack, model, replace(task, seed=repeat)))
    return [summary(pair, found, runs.get((pair[0], "soar"))) for pair, found in runs.items()]


def summary(pair: Pair, runs: list[Measurement], ours: list[Measurement] | None) -> Row:
    """Give the medians of some runs, and of their ratios to ours where we have the same attack."""

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
    vary = data.Augmentation(crop=2, flip=True)
    for epoch in range(epochs):
        order = {"batch_size": batch_size, "seed": 0, "epoch": epoch}
        for x, y, index in data.training_batches(split, augmentation=vary, **order):
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


def main(arguments: list[str] | None = None) -> None:
    """Train or load two models, measure every attack on both, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", choices=sorted(RADII), default="fashion-mnist-sample")
    parser.add_argument("--quick", action="store_true", help="tiny numbers, seconds")
    parser.add_argument("--out", type=Path, help="folder of the result files; --quick saves none without it")
    parser.add_argument("--cache", type=Path, default=HERE / ".cache", help="folder of trained weights")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    size = QUICK if chosen.quick else Size()
    console = Console(record=True, width=130)
    source = data.load(chosen.data, validation=0)
    threat, test = Linf(RADII[chosen.data]), source.test.first(size.images)
    task = Task(threat, data.to_unit(test.images), test.labels, size.steps, size.restarts, size.batch_size)
    pairs = available(task, console.print)
    command = f"python benchmarks/attacks.py --data {chosen.data}{' --quick' * chosen.quick}"
    peers = {item.name: item.version for item in importlib.metadata.distributions() if item.name in PACKAGES}
    surroundings = environment() | peers | {"command": command}
    record = {"environment": surroundings, "threat": str(threat), "size": asdict(size)}
    for kind in ("undefended", "PGD-trained"):
        model = trained(kind, source, size, threat, chosen.cache)
        right = int((predicted(model, task.images, size.batch_size) == task.labels).sum())
        rows = measure_all(pairs, model, task, size.repeats)
        record[kind] = {"images": len(test), "right": right, "rows": rows}
        console.print(table(f"{kind}, {chosen.data}, {threat}: {right} of {len(test)} are right", rows))
    console.print("forward, backward: samples an image; *: with the gradients of the weights")
    console.print(
        f"medians of {size.repeats} runs in turns, one thread, batches of {size.batch_size}: {command}"
    )
    if chosen.out or not chosen.quick:
        folder = chosen.out or HERE / "results"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"attacks-{chosen.data}.json").write_text(json.dumps(record, indent=1) + "\n")
        (folder / f"attacks-{chosen.data}.txt").write_text(console.export_text())


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
