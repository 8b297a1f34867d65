"""A sweep: every point of a grid is trained with several seeds, and validation selects the best."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from soar import recipes
from soar.errors import UserError
from soar.experiments.experiment import RECORD, Experiment, Measurement, TableRow, Training
from soar.experiments.result import Result
from soar.recipes import Recipe
from soar.recipes.overrides import full_name

Grid = dict[str, tuple[str, ...]]
COLUMNS = {name: Measurement(kind=RECORD, options={"what": name}) for name in ("robust", "clean")}
"""what training records on held-out images: robust and clean accuracy"""
MOST = 10_000
"""training runs of a sweep; more of them would take hours only to be planned"""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What to train.

    Args:
        recipe: the name of a recipe, or a TOML file
        flags: fields that are the same everywhere
        grid: values by field
        seeds: how many training runs each point gets
    """

    recipe: str
    flags: tuple[str, ...] = ()
    grid: Grid
    seeds: int = 1

    def places(self) -> dict[str, dict[str, str]]:
        """Return the value of each field at every point of the grid, by the name of the point.

        Raises:
            UserError: if that makes more training runs than anyone can want

        >>> list(Sweep(recipe="demo-robust", grid={"objective.beta": ("1", "3")}).places())
        ['objective.beta=1', 'objective.beta=3']
        """
        number = self.seeds * math.prod(len(values) for values in self.grid.values())
        if number > MOST:
            raise UserError(f"--grid: got {number:,} training runs, expected at most {MOST:,} in a sweep")
        places = [dict(zip(self.grid, one, strict=True)) for one in itertools.product(*self.grid.values())]
        return {", ".join(f"{field}={value}" for field, value in place.items()): place for place in places}

    def experiment(self) -> Experiment:
        """Return the experiment: a training for every point of the grid, all recipes checked.

        Raises:
            UserError: if a recipe makes no sense, or has no held-out images to select by
        """
        trainings = {}
        for name, place in self.places().items():
            fields = [f"--{field}={value}" for field, value in place.items()]
            recipe = recipes.load(self.recipe, [*self.flags, *fields])
            check(recipe)
            trainings[name] = Training(title=name, recipe=recipe)
        rows = tuple(TableRow(name=name, network=name, columns=COLUMNS) for name in trainings)
        return Experiment(
            name=Path(self.recipe).stem,
            title="Accuracy on held-out images",
            rows=rows,
            columns=tuple(COLUMNS),
            trainings=trainings,
            row_key="fields",
            selects=True,
        )


def parse(texts: Sequence[str]) -> Grid:
    """Read grids as they are typed.

    Args:
        texts: such as "objective.beta=1,3,5"

    Raises:
        UserError: for a field that does not exist, occurs twice or has no values

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
            raise UserError("--grid seed: use --seeds N to train with several seeds")
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


def verdict(result: Result) -> str:
    """Return which point was selected, by what, and which others cannot be told from it."""
    if not result.validation:
        return "nothing was selected: no point of the grid has all its training runs"
    selected = next(iter(result.validation))
    cell = result.rows[selected]["robust"]
    spread = "" if cell.std is None else f" ± {cell.std:.1f}"
    text = f"selected on validation robust accuracy: {selected} ({cell.ours:.1f}{spread}%)"
    if cell.std is None:
        return f"{text}; one seed does not show how much is chance, --seeds 3 does"
    near = _near(result.validation, selected, cell.std)
    return f"{text}; within one standard deviation of it: {' and '.join(near) or 'nothing else'}"


def _near(scores: Mapping[str, float], selected: str, std: float) -> list[str]:
    return [name for name, score in scores.items() if name != selected and score >= scores[selected] - std]
