"""Accuracy on clean images, and under an attack on the network itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from soar.attacks.attack import ATTACKS, Attack
from soar.evaluation import evaluate
from soar.evaluation.files import from_bits
from soar.model_state import probing
from soar.prediction import predict
from soar.reproduce.measuring.subject import BATCH, Found, Subject, share

_OF_THE_THREAT = ("attack", "norm", "eps")


def clean(subject: Subject) -> Found:
    """Give the accuracy on clean images.

    Args:
        subject: network and images
    """
    with probing(subject.model):
        said = predict(subject.model, subject.split.images, BATCH).argmax(dim=1).cpu()
    return share(said == subject.split.labels)


def accuracy(subject: Subject) -> Found:
    """Give the accuracy under an attack; one that was interrupted goes on.

    Args:
        subject: network, images and attack
    """
    attack, known = attack_of(subject.options), _right_in_larger_ball(subject)
    if bool(known.all()):
        return share(known, forward=0.0, attack=attack.label, clean=100.0, notes=[])
    right, rows = known.clone(), (~known).nonzero()[:, 0]
    found = evaluate(
        subject.model,
        subject.split.subset(rows),
        subject.threat,
        attack,
        seed=subject.seed,
        batch_size=BATCH,
        progress="plain",
        journal=journal_of(subject),
        check=False,
    )
    (result,) = found.attacks
    right[rows] = result.robust
    clean_right = int(known.sum()) + int(found.correct.sum())
    notes = [note.message for note in found.notes]
    about = {"attack": result.label, "clean": 100 * clean_right / len(known), "notes": notes}
    forward, backward = (passes * len(rows) / len(known) for passes in found.passes(result.label))
    return share(right, forward=forward, backward=backward, **about)


def _right_in_larger_ball(subject: Subject) -> Tensor:
    """Tell who stayed right in a larger ball, where that answers for this one."""
    larger = subject.payload.get("larger")
    result = subject.cache.load_result(larger) if larger else None
    return from_bits(result["right"]) if result else torch.zeros(len(subject.split), dtype=torch.bool)


def attack_of(options: dict[str, Any]) -> Attack[Any]:
    """Build the attack that a measurement's options name.

    >>> attack_of({"attack": "pgd", "steps": 20, "restarts": 50, "norm": "linf", "eps": "8/255"}).label
    'PGD-20 x50'
    """
    numbers = {key: value for key, value in options.items() if key not in _OF_THE_THREAT}
    return ATTACKS.build(options["attack"], numbers)


def journal_of(subject: Subject) -> Path:
    """Say where the outcomes of an attack that is under way are noted."""
    return subject.cache.result(subject.key).with_suffix(".partial.jsonl")
