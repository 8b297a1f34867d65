"""Weights alone: where they are in a run, and how they get into a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.training import checkpoints


def find_weights(source: Path, where: str) -> Path:
    """Find the file with the weights that a path stands for.

    A run folder stands for its best checkpoint, a checkpoint for the weights that were validated: the
    moving average where there is one.

    Args:
        source: a run folder, a checkpoint folder or a .safetensors file
        where: the field or flag that gave the path, for messages

    Raises:
        UserError: when there are no weights
    """
    if source.is_file() and source.suffix == ".safetensors":
        return source
    folder = source if _of(source) else checkpoints.best(source)
    file = _of(folder) if folder else None
    if file is None:
        raise UserError(f"{where}: got '{source}', which holds no usable weights; {_advice(source)}")
    return file


def load_weights(model: nn.Module, source: Path, where: str) -> Path:
    """Fill a model with saved weights; every tensor must be there and have the right shape.

    Args:
        model: what to fill
        source: as in `find_weights`
        where: the field or flag that gave the path, for messages

    Returns:
        The file that was read.

    Raises:
        UserError: when there are no weights, or they are those of another model
    """
    file = find_weights(source, where)
    try:
        saved = safetensors.torch.load_file(file)
    except safetensors.SafetensorError as error:
        raise UserError(f"{where}: '{file}' is not a safetensors file ({error})") from None
    fill(model, saved, f"{where}: '{file}'")
    return file


def fill(model: nn.Module, saved: Mapping[str, Tensor], origin: str) -> None:
    """Copy tensors into a model by name.

    Args:
        model: what to fill
        saved: every tensor of the model and no other
        origin: where the tensors come from, for the message

    Raises:
        UserError: naming the first tensor that does not fit
    """
    difference = _first_difference(model.state_dict(), saved)
    if difference:
        raise UserError(f"{origin} holds the weights of another model: {difference}")
    model.load_state_dict(saved)


def _advice(source: Path) -> str:
    """Return what to do about weights that are missing."""
    from soar import recipes

    if source.parent == Path("runs") and source.name in recipes.names():
        return f"train it first (soar train {source.name}) or start from scratch (--start_from null)"
    return "allowed: a run folder, a checkpoint folder or a .safetensors file"


def _of(folder: Path) -> Path | None:
    files = [folder / "ema.safetensors", folder / "model.safetensors"]
    return next((file for file in files if file.is_file()), None)


def _first_difference(wanted: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> str | None:
    for name, tensor in wanted.items():
        if name not in saved:
            return f"tensor '{name}' is missing"
        if saved[name].shape != tensor.shape:
            shapes = f"{tuple(saved[name].shape)}, the model needs {tuple(tensor.shape)}"
            return f"tensor '{name}' has shape {shapes}"
    extra = [name for name in saved if name not in wanted]
    return f"tensor '{extra[0]}' is not in the model" if extra else None
