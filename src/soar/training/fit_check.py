"""Whether a model fits the data it is to be trained on, found out before anything is written."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from soar.errors import UserError
from soar.model_state import untouched
from soar.prediction import checked_logits, predict

if TYPE_CHECKING:
    from torch import nn

    from soar.data import Dataset

_FEW = 2


def check_fit(model: nn.Module, data: Dataset) -> None:
    """Show a model two images; it is left as it was.

    Args:
        model: anyone's, with its initial weights
        data: what it is to learn

    Raises:
        UserError: if it has nothing to train, does not take the images, or does not know all classes
    """
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UserError("model: got no parameters that can be trained, expected at least one")
    images = data.train.images[:_FEW]
    with untouched(model):
        logits = checked_logits(predict(model, images), len(images))
    if logits.shape[1] < len(data.classes):
        raise UserError(
            f"model: got logits of {logits.shape[1]} classes, expected {len(data.classes)} for {data.name}"
        )
    if logits.shape[1] > len(data.classes):
        warnings.warn(
            f"model: got {logits.shape[1]} outputs, expected {len(data.classes)} for {data.name};"
            " those beyond the classes only learn never to be right",
            stacklevel=2,
        )
