"""The attacks of this library and of others, each as its documentation shows it, on one common task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from soar import attacks
from soar.attacks import apgd, fab, square
from soar.evaluation.suites import resolve
from soar.fuse import inference_copy
from soar.threat import Threat

Runs = dict[str, Callable[[], Tensor]]
"""For each attack of a library, a call that attacks all images and gives the points that were found."""


@dataclass(frozen=True)
class Task:
    """What every library is given."""

    threat: Threat
    images: Tensor
    labels: Tensor
    steps: int
    restarts: int
    batch_size: int
    seed: int = 0
    auto_steps: int = 100
    """of APGD and FAB"""
    queries: int = 5000
    """of Square"""

    @property
    def step_size(self) -> Fraction:
        """A quarter of the radius: 2/255 for 8/255."""
        return self.threat.eps / 4

    @property
    def names(self) -> tuple[str, str, str]:
        """The attacks that most libraries have in common."""
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

    def run(attack: attacks.Attack[Any]) -> Tensor:
        _speed_up(model, task)
        found = attacks.run(
            model, attack, task.threat, task.images, task.labels, seed=task.seed, batch_size=task.batch_size
        )
        claimed = int(found.forward.sum()), int(found.backward.sum())
        counted = model.forwards, model.backwards
        if claimed != counted:
            raise SystemExit(f"{attack.label}: the engine counts {claimed} passes, the model {counted}")
        return found.adversarial

    pgd = attacks.PGD(steps=task.steps, step_size=task.step_size)
    found = task.named(run, (attacks.FGSM(), pgd, replace(pgd, restarts=task.restarts)))
    if task.threat.norm_name != "linf":
        found = {}
    for name, attack in our_parts(task).items():
        found[name] = partial(run, attack)
    for suite in ("fast", "auto", "standard"):
        found[suite] = partial(our_suite, suite, model, task)
    return found


def our_parts(task: Task) -> dict[str, attacks.Attack[Any]]:
    """AutoAttack's four, each alone."""
    restarts, targets = autoattack_numbers(task)
    return {
        "APGD-CE": apgd.APGD(steps=task.auto_steps, restarts=restarts),
        "APGD-T": apgd.APGD(steps=task.auto_steps, loss="dlr", targets=targets),
        "FAB-T": fab.FAB(steps=task.auto_steps),
        "Square": square.Square(queries=task.queries),
    }


def autoattack_numbers(task: Task) -> tuple[int, int]:
    """Return the restarts of APGD-CE and the targets of APGD-T in AutoAttack."""
    return (5, 5) if task.threat.norm_name == "l1" else (1, 9)


def our_suite(suite: str, model: Counted, task: Task) -> Tensor:
    """Run the attacks of a suite one after the other, each on what the ones before have left.

    Of `auto` that is the part that is run on every model, which is all of it where gradients are sound.
    """
    judge = Counted(model.model).eval()
    _speed_up(model, task)
    points = task.images.clone()
    logits = attacks.predict(model, task.images, task.batch_size)
    left = (logits.argmax(dim=1) == task.labels).nonzero()[:, 0]
    plan = resolve(
        f"standard:steps={task.auto_steps},queries={task.queries}" if suite == "standard" else suite,
        task.threat.norm_name,
    )
    for planned in (one for one in plan if one.condition == "always"):
        found = attacks.run(
            model,
            planned.attack,
            task.threat,
            task.images[left],
            task.labels[left],
            index=left,
            seed=task.seed,
            batch_size=task.batch_size,
            clean_logits=logits[left],
            judge=judge,
        )
        points[left] = found.adversarial
        left = left[found.robust]
    model.forwards += judge.forwards
    return points


def _speed_up(model: Counted, task: Task) -> None:
    """Attack a faster copy, as `soar.evaluate` does; making it is part of what is measured."""
    model.model = inference_copy(model.model, task.images[:4])


def torchattacks(model: Counted, task: Task) -> Runs:
    """FGSM and PGD of torchattacks, restarts by its MultiAttack; it returns points only."""
    import torchattacks as library

    eps, alpha = task.threat.radius, float(task.step_size)
    pgd = [library.PGD(model, eps, alpha, task.steps) for _ in range(task.restarts)]
    chosen = (library.FGSM(model, eps), pgd[0], library.MultiAttack(pgd))
    found = task.named(lambda attack: by_batches(attack, task, model), chosen)
    common = {"eps": eps, "seed": task.seed}
    parts = {
        "APGD-CE": library.APGD(model, steps=task.auto_steps, **common),
        "APGD-T": library.APGDT(model, steps=task.auto_steps, **common),
        "FAB-T": library.FAB(model, steps=task.auto_steps, multi_targeted=True, **common),
        "Square": library.Square(model, n_queries=task.queries, resc_schedule=False, **common),
    }
    for name, attack in parts.items():
        found[name] = partial(by_batches, attack, task, model)
    return found


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
    from art.attacks.evasion import (
        AutoProjectedGradientDescent,
        FastGradientMethod,
        ProjectedGradientDescent,
        SquareAttack,
    )
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

    auto = AutoProjectedGradientDescent(
        classifier,
        eps_step=2 * task.threat.radius,
        max_iter=task.auto_steps,
        nb_random_init=1,
        loss_type="cross_entropy",
        verbose=False,
        **common,
    )
    random = SquareAttack(classifier, max_iter=task.queries, verbose=False, **common)
    found = task.named(run, (fgsm, pgd(num_random_init=1), pgd(num_random_init=task.restarts)))
    return found | {"APGD-CE": partial(run, auto), "Square": partial(run, random)}


def pyautoattack(model: Counted, task: Task) -> Runs:
    """AutoAttack by its authors' code: each of the four alone, and the standard evaluation."""
    from pyautoattack import AutoAttack
    from pyautoattack.autopgd_base import APGDAttack, APGDAttack_targeted
    from pyautoattack.fab_pt import FABAttack_PT
    from pyautoattack.square import SquareAttack

    norm, wide = task.threat.norm_name.capitalize(), task.threat.norm_name == "l1"
    restarts, targets = autoattack_numbers(task)
    common = {"eps": task.threat.radius, "seed": task.seed, "device": "cpu", "norm": norm}
    steps = {"n_iter": task.auto_steps, "use_largereps": wide}
    targeted = FABAttack_PT(model, n_iter=task.auto_steps, targeted=True, n_target_classes=9, **common)
    parts = {
        "APGD-CE": APGDAttack(model, n_restarts=restarts, **steps, **common).perturb,
        "APGD-T": APGDAttack_targeted(model, n_target_classes=targets, **steps, **common).perturb,
        "FAB-T": targeted.perturb,
        "Square": SquareAttack(model, n_queries=task.queries, resc_schedule=False, **common).perturb,
    }
    whole = AutoAttack(model, version="standard", **common)
    for one in (whole.apgd, whole.apgd_targeted, whole.fab):
        one.n_iter = one.n_iter_orig = task.auto_steps
    whole.square.n_queries = task.queries

    def standard() -> Tensor:
        found = whole.run_standard_evaluation(task.images, task.labels, batch_size=task.batch_size)
        points: Tensor = found[0]
        return points

    found: Runs = {name: partial(by_batches, attack, task, model) for name, attack in parts.items()}
    return found | {"standard": standard}


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
    """Return the most likely classes."""
    return attacks.predict(model, images, batch_size).argmax(dim=1)
