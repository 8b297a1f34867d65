"""Build a trainer from the recipe of a run."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from torch import nn

from soar.data import Augmentation, Dataset
from soar.errors import UserError
from soar.model_state import untouched
from soar.prediction import checked_logits, predict
from soar.progress import Mode
from soar.runs import Run
from soar.training.extra import load_extra
from soar.training.tracking import Sink
from soar.training.trainer import Trainer

_FEW = 2


def prepare(
    run: Run,
    *,
    device: str = "cpu",
    root: Path | None = None,
    progress: Mode = "auto",
    sinks: Sequence[Sink] = (),
    resume: bool = False,
) -> Trainer:
    """Return the trainer of a run; mistakes in the recipe show here, before anything is written.

    Args:
        run: the recipe and the folder that `fit` writes to
        device: such as "cpu" or "cuda"
        root: the folder of all datasets
        progress: how to show progress
        sinks: further destinations of metrics besides `metrics.jsonl`
        resume: go on from the newest usable checkpoint

    Raises:
        UserError: if the recipe makes no sense, its data are not there or the model does not fit them
    """
    recipe = run.recipe
    data = run.data(root)
    model = run.model(len(data.classes), data.shape)
    check_fit(model, data)
    objective = run.objective(model)
    return Trainer(
        objective,
        data,
        recipe.training,
        recipe.validation,
        recipe.guards,
        run=run.path,
        augmentation=Augmentation(
            crop_padding=recipe.data.crop_padding,
            padding_mode=recipe.data.padding_mode,
            flip=recipe.data.flip,
            cutmix=recipe.data.cutmix or 0.0,
            erasing=recipe.data.erasing or 0.0,
        ),
        extra=load_extra(recipe, data, root=root, device=device),
        seed=recipe.seed,
        device=device,
        sinks=sinks,
        progress=progress,
        resume=resume,
    )


def check_fit(model: nn.Module, data: Dataset) -> None:
    """Check on two images that a model fits the data; the model is left as it was.

    Args:
        model: any model, with its initial weights
        data: the data to train it on

    Raises:
        UserError: if it has no trainable parameters, does not take the images, or has too few outputs
    """
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UserError("model: got no parameters that can be trained, expected at least one")
    images = data.train.stored[:_FEW]
    with untouched(model):
        logits = checked_logits(predict(model, images), len(images))
    if logits.shape[1] < len(data.classes):
        raise UserError(
            f"model: got logits of {logits.shape[1]} classes, expected {len(data.classes)} for {data.name}"
        )
    if logits.shape[1] > len(data.classes):
        warnings.warn(
            f"model: got {logits.shape[1]} outputs, expected {len(data.classes)} for {data.name};"
            " those beyond the classes only learn never to be predicted",
            stacklevel=2,
        )
