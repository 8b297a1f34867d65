"""How long jobs may take: passes through the network times a rough time for each.

Good to a factor of two; what a machine really takes is known only when it has worked for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from soar.cost.training import STILL_ROBUST
from soar.recipes import Recipe
from soar.reproduce.measuring.measurement import Measurement
from soar.reproduce.planning.scales import Scale
from soar.reproduce.planning.text_tables import PASSES, RATIO

# Training images of each data set once validation images are held out, and multiply-adds of each network
# relative to the ResNet-10 of the same scale.
_IMAGES = {"cifar10": 45_000, "svhn": 68_257}
_WORK = {"cnn6": 0.1, "cnn8": 0.5, "resnet18": 2.2, "wide_resnet": 20.0}
_THIN = 3.0
LEFT_BY_LARGER_BALL = 0.35
"""the share of an attack that is left to do where its outcome in a larger ball is known"""
_FORWARD_ONLY = 0.4
START_UP = 3.0
"""seconds of a process before it does anything; a table of many short measurements takes little else"""
# Seconds of one core for a pass of the networks that costs are measured on: a narrow ResNet-10 and, at paper
# scale, a WideResNet-34-10.
_CORE_PASS = {"resnet10": 6e-4, "wide_resnet": 0.2}


def training_passes(objective: Mapping[str, Any]) -> float:
    """Give how often an image goes through the network and back in one epoch.

    >>> training_passes({"name": "adversarial", "steps": 10}), training_passes({"name": "standard"})
    (11.0, 1.0)
    """
    steps = float(objective.get("steps", 10))
    passes: dict[str, float] = {
        "standard": 1.0,
        "adversarial": steps + 1,
        "trades": 1.1 * steps + 2,
        "mart": steps + 2,
        "mma": steps + _FORWARD_ONLY * objective.get("bisections", 10) + 2,
        "llr": steps + 4,
        "cure": 5.0,
        "foar": 3.5,
        "soar": 6.0,
        "soar-paper": 6.0,
    }
    return passes.get(objective["name"], steps)


def train_seconds(recipe: Recipe, scale: Scale) -> float:
    """Give how long a training may take.

    Args:
        recipe: of the training
        scale: for the time of a pass
    """
    passes = training_images(recipe) * training_passes(recipe.objective)
    return passes * scale.pass_seconds * _work(recipe)


def training_images(recipe: Recipe) -> int:
    """Give how many images a training sees, each as often as it is seen; of unknown data about as many.

    >>> from soar.recipes import load
    >>> training_images(load("cifar10-standard", ["--epochs", "2"]))
    90000
    """
    training = recipe.training
    images = training.epochs * _IMAGES.get(recipe.data.name, 10_000)
    most = images if training.max_steps is None else training.max_steps * training.batch_size
    return min(images, most)


def measure_seconds(measurement: Measurement, examples: int, recipe: Recipe | None, scale: Scale) -> float:
    """Give how long a measurement may take.

    Args:
        measurement: what is measured
        examples: on how many images
        recipe: of the network; None where there is none
        scale: for the time of a pass
    """
    if measurement.kind == "cost":
        return _cost_seconds(measurement.options)
    if recipe is None:
        return START_UP
    return START_UP + examples * _passes(measurement) * scale.pass_seconds * _work(recipe)


def _cost_seconds(options: Mapping[str, Any]) -> float:
    """Estimate how long it takes to count or to time training steps, on one core at every scale."""
    if options["what"] in PASSES:
        return START_UP
    names = [options["objective"].partition(":")[0]] + (["adversarial"] if options["what"] == RATIO else [])
    passes = sum(training_passes({"name": name}) for name in names)
    images: int = options["batch_size"] * (options["repeats"] + 1)  # the first step only warms up
    return START_UP + images * passes * _CORE_PASS[options["model"]]


def _passes(measurement: Measurement) -> float:
    options = measurement.options
    if measurement.kind == "accuracy":
        entries = options.get("restarts", 1) * options.get("targets", 1)
        if "queries" in options:
            return float(options["queries"] * _FORWARD_ONLY * STILL_ROBUST)
        return float(options.get("steps", 1) * entries * STILL_ROBUST)
    if measurement.kind in ("points", "relaxation"):
        return float(options["steps"])
    return {"samples": float(options.get("samples", 0) + 3), "confidence": 4.0}.get(measurement.kind, 1.0)


def _work(recipe: Recipe) -> float:
    is_thin = recipe.model.get("widen", 10) < 4
    return _THIN if is_thin else _WORK.get(recipe.model["name"], 1.0)
