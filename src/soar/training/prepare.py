"""From a run's recipe to a trainer that is ready to go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from soar.data import Augmentation
from soar.progress import Mode
from soar.runs import Run
from soar.training.fit_check import check_fit
from soar.training.tracking import Sink
from soar.training.trainer import Trainer


def prepare(
    run: Run,
    *,
    device: str = "cpu",
    root: Path | None = None,
    progress: Mode = "auto",
    sinks: Sequence[Sink] = (),
    resume: bool = False,
) -> Trainer:
    """Build data, model, objective and trainer; mistakes in the recipe show here, before anything is written.

    Args:
        run: the recipe and the folder that `fit` writes to
        device: such as "cpu" or "cuda"
        root: the folder of all data sets
        progress: how to show progress
        sinks: where metrics go besides `metrics.jsonl`
        resume: go on from the newest usable checkpoint

    Raises:
        UserError: if the recipe makes no sense, its data are not there or the model does not fit them
    """
    recipe = run.recipe
    data = run.data(root)
    model = run.model(len(data.classes), data.shape)
    check_fit(model, data)
    objective = run.objective(model)
    section = recipe.data
    return Trainer(
        objective,
        data,
        recipe.training,
        recipe.validation,
        recipe.guards,
        run=run.path,
        augmentation=Augmentation(crop=section.crop, pad=section.pad, flip=section.flip),
        seed=recipe.seed,
        device=device,
        sinks=sinks,
        progress=progress,
        resume=resume,
    )
