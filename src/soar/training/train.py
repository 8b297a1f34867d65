"""From a run folder to a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from soar.data import Augmentation
from soar.progress import Mode
from soar.runs import Run
from soar.training.tracking import Sink
from soar.training.trainer import FitResult, Trainer


def train(
    run: Run,
    *,
    device: str = "cpu",
    root: Path | None = None,
    progress: Mode = "auto",
    sinks: Sequence[Sink] = (),
    resume: bool = False,
) -> FitResult:
    """Do what the recipe of a run folder says, or go on doing it.

    Args:
        run: the run folder
        device: such as "cpu" or "cuda"
        root: the folder of all data sets
        progress: how to show progress
        sinks: where metrics go besides `metrics.jsonl`
        resume: go on from the newest usable checkpoint
    """
    recipe = run.recipe
    data = run.data(root)
    objective = run.objective(run.model(len(data.classes), data.shape))
    section = recipe.data
    trainer = Trainer(
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
    return trainer.fit()
