"""Hashes that identify everything a result depends on."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from soar.recipes import Recipe
from soar.runs import start_weights

_WITHOUT_EFFECT = ("save_minutes", "save_steps", "num_workers")
_WITHOUT_EFFECT_WHEN_OFF = ("compile", "deterministic", "sync_batch_norm")


def recipe_hash(recipe: Recipe, start: str = "") -> str:
    """Return 16 hexadecimal digits that identify everything the result of a training depends on.

    Defaults of the model and the objective count as if the recipe spelled them out, so that nothing made with
    an older default passes for something made with a newer one. The description, and how often checkpoints
    are written, have no part in it.

    Args:
        recipe: the whole recipe
        start: the hash of the network whose weights it begins with; by default that of the weights which
            `training.start_from` names, wherever they are

    >>> from soar.recipes import load
    >>> recipe_hash(load("demo-robust")) == recipe_hash(load("demo-robust", ["--num_workers", "4"]))
    True
    >>> recipe_hash(load("demo-robust")) == recipe_hash(load("demo-robust", ["--seed", "1"]))
    False
    """
    from soar.models import MODELS
    from soar.objectives import OBJECTIVES

    table = recipe.as_table()
    table["model"] = MODELS.spelled_out(recipe.model["name"], table["model"])
    table["objective"] = OBJECTIVES.spelled_out(recipe.objective["name"], table["objective"])
    del table["description"]
    for name in _WITHOUT_EFFECT:
        table["training"].pop(name, None)
    for name in _WITHOUT_EFFECT_WHEN_OFF:
        if not table["training"][name]:
            del table["training"][name]
    if start or recipe.training.start_from:
        outside = recipe.training.start_from or ""
        table["training"]["start_from"] = start or start_weights(outside).sha256[:16]
    return digest(table)[:16]


def digest(value: Any) -> str:
    """Return the SHA-256 of JSON values in any order of their names; 9 and 9.0 are the same number.

    >>> digest({"a": 9, "b": [1]}) == digest({"b": (1,), "a": 9.0})
    True
    """
    return hashlib.sha256(json.dumps(_plain(value), sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
