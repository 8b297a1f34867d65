"""Grids of recipe fields as they are typed, and the recipes that they make."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from soar import recipes
from soar.errors import UserError
from soar.recipes import Recipe
from soar.recipes.overrides import full_name

Grid = dict[str, tuple[str, ...]]
Place = dict[str, str]
"""the value of each field of a grid, as it was written"""
MOST = 10_000
"""trainings of a sweep; more of them would take hours only to be planned"""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What to train.

    Args:
        recipe: the name of a recipe, or a TOML file
        flags: fields that are the same everywhere
        grid: values by field
        seeds: how many trainings each place gets
    """

    recipe: str
    flags: tuple[str, ...] = ()
    grid: Grid
    seeds: int = 1

    def places(self) -> list[Place]:
        """List the product of all grids, the last field changing fastest.

        Raises:
            UserError: if that makes more trainings than anybody can want
        """
        number = self.seeds * math.prod(len(values) for values in self.grid.values())
        if number > MOST:
            raise UserError(f"--grid: got {number:,} trainings, expected at most {MOST:,} in a sweep")
        return [
            dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())
        ]

    def recipes(self, place: Place) -> list[Recipe]:
        """Give the recipe of each seed at a place.

        Raises:
            UserError: if it makes no sense
        """
        flags = [*self.flags, *(f"--{field}={value}" for field, value in place.items())]
        first = recipes.load(self.recipe, flags)
        check(first)
        seeds = range(first.seed, first.seed + self.seeds)
        return [recipes.load(self.recipe, [*flags, f"--seed={seed}"]) for seed in seeds]


def parse(texts: Sequence[str]) -> Grid:
    """Read grids as they are typed.

    Args:
        texts: such as "objective.beta=1,3,5"

    Raises:
        UserError: for a field that does not exist, stands twice or has no values

    >>> parse(["objective.beta=1,3", "lr=0.1", "milestones=[1,2],[2,3]"])
    {'objective.beta': ('1', '3'), 'training.lr': ('0.1',), 'training.milestones': ('[1,2]', '[2,3]')}
    """
    grid: Grid = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        if not equals or not name:
            raise UserError(f"--grid: got '{text}', expected FIELD=VALUE,VALUE such as objective.beta=1,3,5")
        field = full_name(name.removeprefix("--").replace("-", "_"))
        values = _values(listed)
        if not all(values):
            raise UserError(f"--grid {name}: got '{listed}', expected values separated by commas, none empty")
        if len(set(values)) < len(values):
            raise UserError(f"--grid {name}: got '{listed}', expected every value once")
        if field in grid:
            raise UserError(f"--grid {name}: {field} has a grid already; give all its values at once")
        if field == "seed":
            raise UserError("--grid seed: several seeds are asked for by --seeds N")
        grid[field] = values
    if not grid:
        raise UserError("--grid is missing, such as --grid objective.beta=1,3,5")
    return grid


def _values(listed: str) -> tuple[str, ...]:
    """Split at commas, but not within brackets, where they belong to a value.

    >>> _values("[1,2], 3")
    ('[1,2]', '3')
    """
    values, depth = [""], 0
    for piece in re.split(r"([\[\],])", listed):
        depth += (piece == "[") - (piece == "]" and depth > 0)
        if piece == "," and not depth:
            values.append("")
        else:
            values[-1] += piece
    return tuple(value.strip() for value in values)


def check(recipe: Recipe) -> None:
    """Refuse options of the model, the objective or the threat that training would refuse an hour later.

    Raises:
        UserError: as training would
    """
    from torch import nn

    from soar.models import MODELS
    from soar.options import bind
    from soar.runs import Run

    Run(Path(), recipe).objective(nn.Identity())
    if ":" not in recipe.model["name"]:
        options = {name: value for name, value in recipe.model.items() if name != "name"}
        bind(MODELS[recipe.model["name"]].build, options, "model")
