"""Load the second source of training examples that a recipe names, with its own labels or a model's."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from soar import runs
from soar.data import Dataset, Extra, Split, load
from soar.data.catalog import ENCODED
from soar.errors import UserError
from soar.model_state import probing
from soar.prediction import predict
from soar.recipes import Recipe

_AT_ONCE = 256


def load_extra(
    recipe: Recipe, data: Dataset, *, root: Path | None = None, device: str = "cpu"
) -> Extra | None:
    """Return the second source of a recipe, or None where it has none.

    Its examples are the training examples of the dataset that it names. Their indices follow those of the
    first source, so that what an objective keeps of an example, and its random numbers, are its own.

    Args:
        recipe: the recipe
        data: the first source
        root: the folder of all datasets
        device: where a model computes labels

    Raises:
        UserError: if the images or labels are not of the same kind as those of the first source
    """
    section = recipe.data.extra
    if section is None:
        return None
    is_resized = section.name.partition(":")[0] in ENCODED
    resize, crop = (recipe.data.resize, recipe.data.crop) if is_resized else (None, None)
    found = load(section.name, root=root, validation=0, resize=resize, crop=crop)
    train, where = found.train, f"data.extra.name: {section.name}"
    if not len(train):
        raise UserError(f"{where} has no training examples, expected some")
    if found.shape != data.shape:
        raise UserError(
            f"{where} has images of shape {found.shape}, expected {data.shape}, as {data.name} has"
        )
    labels = train.labels if section.labels is None else _said(section.labels, train, data, device)
    is_numbered = found.classes == tuple(map(str, range(len(found.classes))))
    if section.labels is None and not is_numbered and found.classes != data.classes:
        raise UserError(f"{where} has other classes than {data.name}, expected the same in the same order")
    if int(labels.max()) >= len(data.classes):
        raise UserError(
            f"{where} has labels up to {int(labels.max())}, expected 0 to {len(data.classes) - 1},"
            f" the classes of {data.name}"
        )
    known = torch.cat([part.indices for part in (data.train, data.validation)])
    return Extra(Split(train.stored, labels, train.indices + int(known.max()) + 1), section.share)


def _said(folder: str, split: Split, data: Dataset, device: str) -> Tensor:
    """Return the classes that the trained model of a run predicts."""
    model = runs.find(folder).trained_model(data).to(device)
    with probing(model):
        rows = torch.arange(len(split), device="cpu").split(_AT_ONCE)
        logits = [predict(model, split.stored[some], _AT_ONCE).cpu() for some in rows]
        return torch.cat(logits).argmax(dim=1)
