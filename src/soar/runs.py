"""Run folders: the recipe, the environment, and the results of a training run.

A run folder holds `recipe.toml`, `environment.json`, `metrics.jsonl`, `checkpoints/` and assessments. It is
never deleted and never overwritten.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from soar import files, recipes, values
from soar.environment import environment
from soar.errors import FileError, UserError, reason_of, unknown
from soar.locks import run_lock
from soar.recipes import Recipe

if TYPE_CHECKING:
    from torch import nn

    from soar.data import Dataset
    from soar.objectives import Objective
    from soar.threat import Threat
    from soar.weights import Weights


@dataclass(frozen=True)
class Run:
    """A run folder and the recipe in it.

    Args:
        path: the folder
        recipe: what is trained
        checkpoint: the name of the checkpoint to use in place of the best one
    """

    path: Path
    recipe: Recipe
    checkpoint: str | None = None

    def create(self) -> None:
        """Make the folder, with the environment and the recipe in it.

        Raises:
            UserError: if it cannot be made, holds a run already, or another process is training there
        """
        try:
            with run_lock(self.path):
                _check_free(self.path)
                files.write(self.path / "environment.json", json.dumps(environment(), indent=1) + "\n")
                # Last, because the recipe makes the folder a run.
                recipes.write(self.recipe, self.path / "recipe.toml")
        except FileError as error:
            raise UserError(f"{error}; choose another run folder (flag --output)") from None

    def data(self, root: Path | None = None) -> Dataset:
        """Load the data that the recipe names.

        Args:
            root: the folder of all datasets
        """
        from soar.data import load

        section = self.recipe.data
        return load(
            section.name,
            root=root,
            validation=section.validation,
            seed=self.recipe.seed,
            resize=section.resize,
            crop=section.crop,
        )

    def threat(self) -> Threat:
        """Return the recipe's threat."""
        from soar.threat import threat

        return threat(self.recipe.threat.norm, self.recipe.threat.eps)

    def model(self, classes: int, shape: tuple[int, int, int]) -> nn.Module:
        """Build the recipe's model with its initial weights."""
        from soar import models

        options = {key: value for key, value in self.recipe.model.items() if key != "name"}
        return models.build(
            self.recipe.model["name"],
            seed=self.recipe.seed,
            num_classes=classes,
            image_shape=shape,
            options=options,
        )

    def trained_model(self, data: Dataset) -> nn.Module:
        """Build the recipe's model with its trained weights.

        Args:
            data: the recipe's data, for the number of classes and the shape of an image

        Raises:
            UserError: if there are no weights, or they are damaged
        """
        from soar.weights import load_weights

        model = self.model(len(data.classes), data.shape)
        load_weights(model, self.weights().file, "RUN")
        return model

    def weights(self) -> Weights:
        """Return the weights of the best checkpoint, or of the one that was named.

        Raises:
            UserError: if there are none, or they are damaged
        """
        from soar import checkpoints
        from soar.weights import find_weights

        if self.checkpoint is None:
            advice = f"train it first (soar train --resume {self.path})"
            return find_weights(self.path, "RUN", advice)
        names = [path.name for path in checkpoints.available(self.path)]
        if self.checkpoint not in names:
            raise unknown("checkpoint", self.checkpoint, names, "flag --checkpoint")
        return find_weights(self.path / checkpoints.FOLDER / self.checkpoint, "--checkpoint")

    def objective(self, model: nn.Module) -> Objective:
        """Build the recipe's objective around a model.

        Raises:
            UserError: if it cannot be built, or is not an `Objective`
        """
        from soar.objectives import OBJECTIVES, Objective

        options = {key: value for key, value in self.recipe.objective.items() if key != "name"}
        name = self.recipe.objective["name"]
        built = OBJECTIVES.build(name, options, model, self.threat(), seed=self.recipe.seed)
        if not isinstance(built, Objective):
            raise UserError(
                f"objective.name: {name} returned a {type(built).__name__}, expected a subclass of Objective"
            )
        return built


def plan(recipe: Recipe, path: Path) -> Run:
    """Return a new run; nothing is written until its `create` is called.

    Raises:
        UserError: if the folder holds a run already
    """
    _check_free(path)
    return Run(path, recipe)


def _check_free(path: Path) -> None:
    stored = path / "recipe.toml"
    # An empty file, as a full disk leaves it, cannot be resumed.
    if stored.exists() and (stored.stat().st_size or (path / "checkpoints").exists()):
        raise UserError(
            f"{path} holds a run already; go on with it (soar train --resume {path})"
            " or choose another folder (flag --output)"
        )


def find(path: Path | str, checkpoint: str | None = None) -> Run:
    """Open a run folder.

    Args:
        path: the folder
        checkpoint: the name of the checkpoint to use in place of the best one

    Raises:
        UserError: if it is not one
    """
    path = values.place(path, "run")
    stored = path / "recipe.toml"
    try:
        stored.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: not a run folder, there is no recipe.toml in it") from None
    except OSError as error:
        raise FileError(f"{stored}: cannot be read ({reason_of(error)})") from None
    return Run(path, recipes.load(stored), checkpoint)


def start_weights(source: str) -> Weights:
    """Find the weights that a training starts from.

    Args:
        source: the value of `training.start_from`: a run folder, a checkpoint folder or a .safetensors file

    Raises:
        UserError: if there are no weights, or those of the best checkpoint are damaged
    """
    from soar.weights import ALLOWED, find_weights

    path, advice = Path(source), ALLOWED
    if path.parent == Path("runs") and path.name in recipes.names():
        advice = f"train it first (soar train {path.name}) or start from scratch (--start_from null)"
    return find_weights(path, "training.start_from", advice)


def free_path(name: str, parent: Path = Path("runs"), *, suffix: str = "") -> Path:
    """Return a path that does not exist yet: runs/name, runs/name-2, runs/name-3, ...

    >>> free_path("never-made").as_posix()
    'runs/never-made'
    """
    return next(path for path in files.numbered(parent, name, suffix) if not path.exists())
