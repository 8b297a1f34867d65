"""Accuracy on clean images, and under an attack on the network itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from soar.attacks.attack import Attack
from soar.attacks.oracle import predict
from soar.attacks.registry import ATTACKS
from soar.evaluation import evaluate
from soar.model_state import probing
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
    attack = attack_of(subject.options)
    found = evaluate(
        subject.model,
        subject.split,
        subject.threat,
        attack,
        seed=subject.seed,
        batch_size=BATCH,
        progress="plain",
        journal=journal_of(subject),
        check=False,
    )
    (result,) = found.attacks
    forward, backward = found.passes(result.label)
    about = {"attack": result.label, "clean": 100 * found.accuracy("clean"), "notes": list(found.notes)}
    return share(result.robust, forward=forward, backward=backward, **about)


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
