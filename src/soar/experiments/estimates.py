"""How long jobs may take: counted passes through the network, at a rough rate of operations.

Good to a factor of two; how fast a machine really is becomes known once it has worked for a while.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch

from soar.attacks.attack import Attack
from soar.cost import Counter, count_objective
from soar.cost.training import STILL_ROBUST
from soar.errors import UserError
from soar.evaluation.suites import resolve
from soar.experiments.experiment import Measurement
from soar.experiments.measure.accuracy import attack_of
from soar.models import MODELS
from soar.recipes import Recipe

START_UP = 3.0
"""seconds of a process before it does anything; a table of many short measurements takes little else"""
# Floating-point operations a second: measured on one core of a server, assumed for one GPU.
_RATE = {"cpu": 8e10, "cuda": 8e12}
# Images and their shape where data need not be there yet; any other data count like the bundled sample.
_IMAGES = {"cifar10": 50_000, "svhn": 73_257, "fashion-mnist": 60_000}
_SAMPLE = 10_000
_COLOR, _GRAY = (3, 32, 32), (1, 28, 28)
_CLASSES = 10
# A forward pass with its gradient, in forward passes.
_WITH_GRADIENT = 3.0
_UNKNOWN = 1e8


def training_images(recipe: Recipe) -> int:
    """Return how many images are seen in all epochs together, each as often as it is seen.

    >>> from soar.recipes import load
    >>> training_images(load("cifar10-standard", ["--epochs", "2"]))
    90000
    >>> extra = ["--data.extra", "synthetic.npz", "--data.extra.share", "0.7"]
    >>> training_images(load("cifar10-standard", ["--epochs", "2", *extra]))
    300000
    """
    training = recipe.training
    images = _IMAGES.get(recipe.data.name, _SAMPLE)
    held_out = min(images // 10, 5000) if recipe.data.validation is None else recipe.data.validation
    # An epoch counts the first source of every batch.
    own = 1 - (recipe.data.extra.share if recipe.data.extra else 0)
    images = round(training.epochs * (images - held_out) / own)
    most = images if training.max_steps is None else training.max_steps * training.batch_size
    return min(images, most)


def train_seconds(recipe: Recipe, device: str = "cpu") -> float:
    """Return how long a training run may take."""
    training = recipe.training
    each = _update_work(recipe.objective) * _seconds(recipe.model, _shape(recipe), device)
    if training.minutes is None:
        return training_images(recipe) * each
    most = math.inf if training.max_steps is None else training.max_steps * training.batch_size
    return min(60 * training.minutes, most * each)


def _update_work(objective: Mapping[str, Any]) -> float:
    """Return the work of one update, in forward passes of its images."""
    options = {key: value for key, value in objective.items() if key != "name"}
    try:
        return count_objective(objective["name"], **options).work
    except UserError:
        # Options that training will refuse.
        return _WITH_GRADIENT


def measure_seconds(measurement: Measurement, recipe: Recipe | None, device: str = "cpu") -> float:
    """Return how long a measurement may take.

    Args:
        measurement: what is measured
        recipe: of the network; None where there is none
        device: where it runs
    """
    if recipe is None:
        return START_UP
    each = _seconds(recipe.model, _shape(recipe), device)
    return START_UP + measurement.examples * _passes(measurement) * each


def _passes(measurement: Measurement) -> float:
    """Return the work of a measurement for one image, in forward passes."""
    options = measurement.options
    if measurement.kind == "accuracy":
        return _attack_passes(attack_of(dict(options))) * STILL_ROBUST
    if measurement.kind == "assessment":
        return sum(_attack_passes(one.attack) for one in resolve(options["attacks"])) * STILL_ROBUST
    gradients = {
        "points": float(options.get("steps", 0)),
        "relaxation": float(options.get("steps", 0)),
        "samples": float(options.get("samples", 0) + 3),
        "confidence": 3.0,
    }
    return _WITH_GRADIENT * gradients[measurement.kind] if measurement.kind in gradients else 1.0


def _attack_passes(attack: Attack[Any]) -> float:
    """Return the forward passes of an attack on an image that it never fools."""
    queries = attack.budget * attack.entries(_CLASSES)
    return float(queries if hasattr(attack, "queries") else _WITH_GRADIENT * queries)


def _shape(recipe: Recipe) -> tuple[int, int, int]:
    return _GRAY if recipe.data.name.startswith("fashion") else _COLOR


def _seconds(model: Mapping[str, Any], shape: tuple[int, int, int], device: str) -> float:
    """Return the seconds of one forward pass of one image."""
    rate = _RATE["cpu" if device == "cpu" else "cuda"]
    return _forward_operations(tuple(sorted(model.items())), shape) / rate


@cache
def _forward_operations(model: tuple[tuple[str, Any], ...], shape: tuple[int, int, int]) -> float:
    """Count the floating-point operations of one image's forward pass."""
    options = dict(model)
    try:
        # On the meta device nothing is allocated, however wide the network.
        with torch.device("meta"), torch.no_grad():
            network = MODELS.build(options.pop("name"), options, _CLASSES, shape).eval()
            with Counter(network) as counter:
                network(torch.zeros(1, *shape, device="meta"))
    except (UserError, RuntimeError):
        # A model of another package, or one that training will refuse.
        return _UNKNOWN
    return counter.flop
