"""Run folders: what was asked for, with what, and what came of it.

A run folder holds `recipe.toml`, `environment.json`, `metrics.jsonl`, `checkpoints/` and assessments. It is
never deleted and never overwritten.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from soar import recipes, values
from soar.errors import UserError
from soar.recipes import Recipe

if TYPE_CHECKING:
    from torch import nn

    from soar.data import Dataset
    from soar.objectives import Objective
    from soar.threat import Threat


@dataclass(frozen=True)
class Run:
    """A run folder and the recipe in it."""

    path: Path
    recipe: Recipe

    def create(self) -> None:
        """Make the folder, with the recipe and the environment in it.

        Raises:
            UserError: if it cannot be made
        """
        from soar.environment import environment

        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / "environment.json").write_text(json.dumps(environment(), indent=1) + "\n")
            recipes.write(self.recipe, self.path / "recipe.toml")
        except OSError as error:
            reason = f"{error.strerror}; flag --output"
            raise UserError(f"{self.path}: cannot make a run folder ({reason})") from None

    def data(self, root: Path | None = None) -> Dataset:
        """Load the data that the recipe names.

        Args:
            root: the folder of all data sets
        """
        from soar.data import load

        section = self.recipe.data
        return load(section.name, root=root, validation=section.validation, seed=self.recipe.seed)

    def threat(self) -> Threat:
        """Give the recipe's threat."""
        from soar.threat import threat

        return threat(self.recipe.threat.norm, self.recipe.threat.eps)

    def model(self, classes: int, shape: tuple[int, int, int]) -> nn.Module:
        """Build the recipe's model with its initial weights.

        A name with a colon, `package.module:callable`, is a model from elsewhere; the callable decides itself
        how many classes and what images it is for.
        """
        from soar import models
        from soar.models.external import build_external

        options = {key: value for key, value in self.recipe.model.items() if key != "name"}
        name = self.recipe.model["name"]
        if ":" in name:
            if options:
                raise UserError(
                    f"model.{min(options)}: a model from elsewhere ({name}) takes no options here"
                )
            return build_external(name, seed=self.recipe.seed)
        return models.build(
            name, seed=self.recipe.seed, num_classes=classes, image_shape=shape, options=options
        )

    def trained_model(self, data: Dataset) -> nn.Module:
        """Build the recipe's model with the weights of the best checkpoint.

        Args:
            data: the recipe's data, for the number of classes and the shape of an image
        """
        from soar.training.weights import load_weights

        model = self.model(len(data.classes), data.shape)
        load_weights(model, self.path, "RUN")
        return model

    def objective(self, model: nn.Module) -> Objective:
        """Build the recipe's objective around a model."""
        from soar.objectives import OBJECTIVES

        options = {key: value for key, value in self.recipe.objective.items() if key != "name"}
        name = self.recipe.objective["name"]
        return OBJECTIVES.build(name, options, model, self.threat(), seed=self.recipe.seed)


def plan(recipe: Recipe, path: Path) -> Run:
    """Say where a new run will be; nothing is written until its `create` is called.

    Raises:
        UserError: if the folder holds a run already
    """
    if (path / "recipe.toml").exists():
        raise UserError(
            f"{path} holds a run already; go on with it (soar train --resume {path})"
            " or choose another folder (flag --output)"
        )
    return Run(path, recipe)


def find(path: Path | str) -> Run:
    """Open a run folder.

    Raises:
        UserError: if it is not one
    """
    path = values.place(path, "run")
    stored = path / "recipe.toml"
    if not os.path.exists(stored):  # a name that is too long does not exist either
        raise UserError(f"{path}: not a run folder, there is no recipe.toml in it")
    return Run(path, recipes.load(stored))


def free_path(name: str, parent: Path = Path("runs"), *, suffix: str = "") -> Path:
    """Give a path that does not exist yet: runs/name, runs/name-2, runs/name-3, ...

    >>> free_path("never-made").as_posix()
    'runs/never-made'
    """
    path, number = parent / f"{name}{suffix}", 1
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}{suffix}"
    return path
