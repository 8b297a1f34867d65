"""A sweep: every point of a grid is trained with several seeds, and validation selects the best."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

from soar import recipes
from soar.errors import UserError
from soar.experiments.experiment import RECORD, Experiment, Measurement, Network, TableRow
from soar.recipes import Recipe
from soar.recipes.overrides import full_name

Grid = dict[str, tuple[str, ...]]
COLUMNS = {name: Measurement(kind=RECORD, options={"what": name}) for name in ("robust", "clean")}
"""what training records on held-out images: robust and clean accuracy"""
MOST = 10_000
"""training runs of a sweep; more of them would take hours only to be planned"""


def experiment(recipe: str, grid: Grid, *, flags: Sequence[str] = (), seeds: int = 1) -> Experiment:
    """Return the experiment: a network for every point of the grid, all recipes checked.

    Args:
        recipe: the name of a recipe, or a TOML file
        grid: values by field
        flags: fields that are the same everywhere
        seeds: how many training runs each point gets

    Raises:
        UserError: if a recipe makes no sense, has no held-out images to select by, or the grid is too large

    >>> list(experiment("demo-robust", {"objective.steps": ("1", "3")}).networks)
    ['objective.steps=1', 'objective.steps=3']
    """
    number = seeds * math.prod(len(values) for values in grid.values())
    if number > MOST:
        raise UserError(f"--grid: got {number:,} training runs, expected at most {MOST:,} in a sweep")
    networks = {}
    for values in itertools.product(*grid.values()):
        place = [f"{field}={value}" for field, value in zip(grid, values, strict=True)]
        made = recipes.load(recipe, [*flags, *(f"--{one}" for one in place)])
        check(made)
        networks[", ".join(place)] = Network(title=", ".join(place), recipe=made)
    return Experiment(
        name=Path(recipe).stem,
        title="Accuracy on held-out images",
        rows=tuple(TableRow(name=name, network=name, columns=COLUMNS) for name in networks),
        columns=tuple(COLUMNS),
        networks=networks,
        row_key="fields",
        caution="One seed does not show how much is chance; --seeds 3 does." if seeds == 1 else "",
        selects=True,
        seeds=seeds,
    )


def parse(texts: Sequence[str]) -> Grid:
    """Read grids as they are typed.

    Args:
        texts: such as "objective.beta=1,3,5"

    Raises:
        UserError: for a field that does not exist, occurs twice or has no values

    >>> parse(["objective.beta=1,3", "lr=0.1"])
    {'objective.beta': ('1', '3'), 'training.lr': ('0.1',)}
    """
    grid: Grid = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        if not equals or not name:
            raise UserError(f"--grid: got '{text}', expected FIELD=VALUE,VALUE such as objective.beta=1,3,5")
        field = full_name(name.removeprefix("--").replace("-", "_"))
        values = tuple(value.strip() for value in listed.split(","))
        if not all(values):
            raise UserError(f"--grid {name}: got '{listed}', expected values separated by commas, none empty")
        if len(set(values)) < len(values):
            raise UserError(f"--grid {name}: got '{listed}', expected every value once")
        if field in grid:
            raise UserError(f"--grid {name}: {field} has a grid already; give all its values at once")
        if field == "seed":
            raise UserError("--grid seed: use --seeds N to train with several seeds")
        grid[field] = values
    if not grid:
        raise UserError("--grid is missing, such as --grid objective.beta=1,3,5")
    return grid


def check(recipe: Recipe) -> None:
    """Refuse options of the model, the objective or the threat that training would refuse an hour later.

    Raises:
        UserError: as training would, or if there are no held-out images
    """
    from torch import nn

    from soar.models import MODELS
    from soar.options import bind
    from soar.runs import Run

    if recipe.data.validation == 0:
        raise UserError(
            "data.validation: got 0, expected at least 1: a sweep selects on held-out examples"
            " (flag --data.validation)"
        )
    Run(Path(), recipe).objective(nn.Identity())
    if ":" not in recipe.model["name"]:
        options = {name: value for name, value in recipe.model.items() if name != "name"}
        bind(MODELS[recipe.model["name"]].build, options, "model")
