"""The networks of the paper's tables, by name: what each is trained with, and from which other it starts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from soar import recipes
from soar.errors import UserError, unknown
from soar.experiments.cache import recipe_hash
from soar.experiments.planning.families import (
    ALWAYS_FULL,
    CONTINUES,
    FAMILIES,
    SWEEPS,
    Method,
    family_fields,
    method_of,
)
from soar.experiments.planning.scales import Scale
from soar.recipes import Recipe

_OTHER_SEED = 1000
"""sources of transferred points are trained with seeds this much higher"""

_SOURCES = {"source-resnet": "standard", "source-wide": "thin-standard", "svhn-source": "svhn-standard"}


@dataclass(frozen=True)
class Network:
    """A network that a table needs.

    Args:
        name: what experiments call it, such as soar or trades-beta-3
        title: what readers call it
        recipe: how it is trained, without the weights it begins with
        start: the network whose weights it begins with
        weights: a file of a user's own, in place of training
    """

    name: str
    title: str
    recipe: Recipe
    start: Network | None = None
    weights: str = ""

    @cached_property
    def key(self) -> str:
        """What it is stored under: a hash of everything that decides its weights."""
        if self.weights:
            digest = hashlib.blake2b(repr(sorted(self.recipe.model.items())).encode(), digest_size=8)
            digest.update(Path(self.weights).read_bytes())
            return digest.hexdigest()
        return recipe_hash(self.recipe, self.start.key if self.start else "")


def with_weights(network: Network, path: str | Path) -> Network:
    """Give the network with weights of the user's own in place of training.

    Args:
        network: for its model, data and name
        path: a .safetensors file with a tensor for every parameter and buffer of the model

    Raises:
        UserError: if there is no such file
    """
    if not (Path(path).is_file() and Path(path).suffix == ".safetensors"):
        raise UserError(f"--weights: got '{path}', expected a .safetensors file that exists")
    return replace(network, weights=str(Path(path).resolve()), start=None)


def network(name: str, scale: Scale, seed: int) -> Network:
    """Give a network by its name.

    Sources of transferred points are trained with another seed than what they attack. WideResNets other than
    the source have the paper's size at every scale: below paper scale they are for weights of a user's own.

    Args:
        name: one of NAMES, or trades-beta-B, mart-beta-B or mma-margin-M
        scale: how large
        seed: of weights, data order and attacks

    Raises:
        UserError: if there is no network of that name

    >>> from soar.experiments.planning.scales import SCALES
    >>> found = network("trades-beta-3", SCALES["small"], seed=1)
    >>> found.title, found.recipe.objective["beta"], found.recipe.training.epochs, found.start.name
    ('TRADES, beta 3', 3, 1, 'standard')
    """
    if name in _SOURCES:
        other = network(_SOURCES[name], scale, seed + _OTHER_SEED)
        return replace(other, name=name, title=f"{other.title}, a source of transfer")
    family, method = _parts(name)
    known = method_of(method)
    if known is None:
        raise unknown("network", name, NAMES, "networks")
    full = scale.is_full or family in ALWAYS_FULL
    # CURE's own networks are a ResNet-18 and a WideResNet-28-10.
    inner = {"": "resnet18", "wide": "wrn28"}[family] if full and method == "cure" else family
    recipe = recipes.from_table(_table(inner, known, scale, seed), name)
    start = None
    if method != "standard" and (method in CONTINUES or not full):
        start = network(f"{inner}-standard" if inner else "standard", scale, seed)
    title = f"{FAMILIES[family]} {known.title}".strip()
    return Network(name, title, recipe, start)


def _parts(name: str) -> tuple[str, str]:
    """Divide a name into the family of the network and the method it is trained with.

    >>> _parts("svhn-trades-l2"), _parts("soar-zero")
    (('svhn', 'trades-l2'), ('', 'soar-zero'))
    """
    first, _, rest = name.partition("-")
    return (first, rest) if first in FAMILIES and rest else ("", name)


def _table(family: str, method: Method, scale: Scale, seed: int) -> dict[str, Any]:
    """Give the recipe of a method on a family of networks as a table."""
    full = scale.is_full or family in ALWAYS_FULL
    names = [f"{one}-{method.recipe}{'' if full else '-small'}" for one in (family, "cifar10")]
    base = next(one for one in names if one in recipes.names())
    table = recipes.read(recipes.path_of(base))
    changes: list[Mapping[str, Any]] = [
        # What a network starts from is a network of the cache, and none where the paper trains from scratch.
        {"description": "", "seed": seed, "training.start_from": None},
        method.paper if full else {**_shorter(method), **method.small},
        method.both,
        family_fields(family, method, full=full),
    ]
    for fields in changes:
        table = recipes.apply(table, dict(fields))
    return _tiny(table) if scale.name == "smoke" and family not in ALWAYS_FULL else table


def _shorter(method: Method) -> dict[str, Any]:
    """Give the length of a training at small scale; the undefended network is trained as shipped."""
    if method.recipe == "standard":
        return {}
    epochs, warmup = (1, 0.25) if method.is_sweep else (4, 1.0)
    return {"training.epochs": epochs, "training.eps_warmup_epochs": warmup}


def _tiny(table: dict[str, Any]) -> dict[str, Any]:
    """Shrink a recipe to seconds: bundled data, four channels, so many updates that something is right."""
    undefended = table["objective"]["name"] == "standard"
    fields: dict[str, Any] = {
        "data.name": "fashion-mnist-sample",
        "data.validation": 64,
        "data.crop": 0,
        "data.flip": False,
        "training.epochs": 1,
        "training.max_steps": 30 if undefended else 3,
        "training.batch_size": 32,
        "training.schedule": "constant" if undefended else "one-cycle",
        "training.eps_warmup_epochs": 0.0,
        "validation.examples": 16,
        "validation.steps": 2,
        "guards.overfitting": "off",
    }
    least = {"width": 4, "hidden": 8, "widen": 1}
    fields |= {f"model.{key}": value for key, value in least.items() if key in table["model"]}
    if table["model"].get("input_normalization", "per-image") != "per-image":
        fields["model.input_normalization"] = "fashion-mnist"
    objective = table["objective"]
    fields |= {f"objective.{key}": 2 for key in ("steps", "bisections") if key in objective}
    return recipes.apply(table, fields)


def _names() -> tuple[str, ...]:
    single = [
        "standard",
        "adv",
        "trades",
        "mart",
        "mma",
        "foar",
        "soar",
        "soar-zero",
        "soar-rand",
        "foar-zero",
    ]
    single += ["foar-rand", "cure", "llr", "adv-l2", "trades-l2", *_SOURCES, "cnn6-soar", "cnn8-soar"]
    svhn = [f"svhn-{one}" for one in ("standard", "adv", "trades", "soar", "trades-l2")]
    wide = [f"wide-{one}" for one in ("standard", "adv", "trades", "mart", "mma", "cure")]
    swept = [f"{method}-{what}-{value}" for method, what, values in SWEEPS for value in values]
    return (*single, *svhn, *wide, *swept)


NAMES: tuple[str, ...] = _names()
"""every network that some table needs"""
