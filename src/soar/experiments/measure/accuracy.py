"""Accuracy on clean images and under attacks on the network itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from soar.attacks.attack import ATTACKS, Attack
from soar.evaluation import Assessment, evaluate
from soar.evaluation.assessment import WORST
from soar.evaluation.files import from_bits
from soar.evaluation.journal import remove_journals
from soar.evaluation.suites import resolve
from soar.experiments.measure.task import BATCH, Found, Task, share
from soar.locks import reserved

_OF_THE_THREAT = ("attack", "norm", "eps")


def clean(task: Task) -> Found:
    """Return the accuracy on clean images."""
    return share(task.target.correct)


def accuracy(task: Task) -> Found:
    """Return the accuracy under one attack."""
    correct = _robust_in_larger_ball(task)
    if bool(correct.all()):
        return share(correct)
    rows = ~correct
    target = task.target.subset(rows)
    found = evaluate(
        target.model,
        target.data,
        target.threat,
        attack_of(task.options),
        seed=task.seed,
        batch_size=BATCH,
        progress="plain",
        journal=task.cache.journal(task.key),
        check=False,
    )
    correct[rows] = found.attacks[0].robust
    return share(correct)


def assessment(task: Task) -> Found:
    """Return the worst case of several attacks, with every attack as a part, and keep the assessment.

    It is written into the network's run folder, where reports find it; one that is there already is read.
    """
    options, target = task.options, task.target
    labels = [one.attack.label for one in resolve(options["attacks"], target.threat.norm_name)]
    for path in sorted(task.run.path.glob(f"assessment-{options['split']}*.json")):
        found = Assessment.load(path)
        if [one.label for one in found.attacks] == labels and torch.equal(found.index, target.index):
            return _of_assessment(found)
    with reserved(f"assessment-{options['split']}", task.run.path, ".json") as output:
        journal = output.with_suffix(".partial.jsonl")
        found = evaluate(
            target.model,
            target.data,
            target.threat,
            options["attacks"],
            name=task.payload.get("title", target.name),
            data_name=target.data_name,
            progress="plain",
            journal=journal,
            weights=target.weights,
        )
        found.save(output)
        remove_journals(journal)
    return _of_assessment(found)


def _of_assessment(found: Assessment) -> Found:
    parts = {name: share(found.survivors(name)) for name in found.names}
    worst = parts[WORST]
    return Found(worst.value, worst.low, worst.high, worst.correct, parts=parts)


def _robust_in_larger_ball(task: Task) -> Tensor:
    """Return which examples an attack in a larger ball did not break, where that settles this one."""
    larger = task.payload.get("larger")
    result = task.cache.load_result(larger) if larger else None
    return (
        from_bits(result["correct"])
        if result
        else torch.zeros(len(task.target), dtype=torch.bool, device="cpu")
    )


def attack_of(options: dict[str, Any]) -> Attack[Any]:
    """Build the attack that a measurement's options name.

    >>> attack_of({"attack": "pgd", "steps": 20, "restarts": 50, "norm": "linf", "eps": "8/255"}).label
    'PGD-20 x50'
    """
    numbers = {key: value for key, value in options.items() if key not in _OF_THE_THREAT}
    return ATTACKS.build(options["attack"], numbers)
