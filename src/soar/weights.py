"""Find the weights of a run, and load weights into a model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor, nn

from soar import checkpoints
from soar.errors import FileError, UserError, reason_of

ALLOWED = "allowed: a run folder, a checkpoint folder or a .safetensors file"


@dataclass(frozen=True)
class Weights:
    """The file that a model's weights were loaded from, for the record beside every result.

    Args:
        file: where they were read
        sha256: the digest of the file
        step: the training step of their checkpoint
    """

    file: Path
    sha256: str
    step: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"file": str(self.file), "sha256": self.sha256, "step": self.step}

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> Weights:
        """Restore what `as_dict` returned."""
        return Weights(Path(stored["file"]), stored["sha256"], stored["step"])

    def __str__(self) -> str:
        step = "" if self.step is None else f"step {self.step}, "
        return f"{self.file} ({step}sha256 {self.sha256[:12]})"


def find_weights(source: Path, where: str, advice: str = ALLOWED) -> Weights:
    """Find the weights that a path stands for.

    A run folder stands for its best checkpoint, a checkpoint for the weights that were validated, which are
    the moving average where there is one.

    Args:
        source: a run folder, a checkpoint folder or a .safetensors file
        where: the field or flag that gave the path, for messages
        advice: what to do if there are no weights, for the message

    Raises:
        UserError: if there are no weights, or those of the best checkpoint are damaged
    """
    if source.is_file() and source.suffix == ".safetensors":
        return describe_file(source)
    folder = source if _of(source) or (source / "state.json").exists() else checkpoints.best(source)
    if folder is None:
        raise UserError(f"{where}: got '{source}', which holds no usable weights; {advice}")
    problem = checkpoints.damage(folder)
    file = _of(folder)
    if problem is not None or file is None:
        raise _damaged(folder, problem or "model.safetensors is missing", where)
    return describe_file(file, json.loads((folder / "state.json").read_text(encoding="utf-8"))["step"])


def describe_file(file: Path, step: int | None = None) -> Weights:
    """Return the record of a file of weights.

    Raises:
        UserError: if it cannot be read
    """
    try:
        with file.open("rb") as stream:
            return Weights(file, hashlib.file_digest(stream, "sha256").hexdigest(), step)
    except OSError as error:
        raise FileError(f"{file}: cannot be read ({reason_of(error)})") from None


def _damaged(folder: Path, problem: str, where: str) -> UserError:
    """Return the error about a damaged checkpoint; others would change the results, so they are not used."""
    others = [path.name for path in checkpoints.available(folder.parent.parent) if path != folder]
    usable = [name for name in others if checkpoints.damage(folder.parent / name) is None]
    hint = (
        f"name another one, {' or '.join(usable)} (flag --checkpoint)"
        if usable
        else f"no other is left; soar train --resume {folder.parent.parent} makes it again"
    )
    return UserError(f"{where}: checkpoint {folder} is damaged ({problem}); {hint}")


def load_weights(model: nn.Module, source: Path, where: str) -> Weights:
    """Load saved weights into a model; names and shapes of all tensors must match.

    Args:
        model: filled in place
        source: as in `find_weights`
        where: the field or flag that gave the path, for messages

    Returns:
        A record of the file.

    Raises:
        UserError: if there are no weights, they are damaged, or they are those of another model
    """
    found = find_weights(source, where)
    file = found.file
    try:
        saved = safetensors.torch.load_file(file)
    except safetensors.SafetensorError as error:
        raise UserError(f"{where}: '{file}' is not a safetensors file ({error})") from None
    fill(model, saved, f"{where}: '{file}'")
    return found


def fill(model: nn.Module, saved: Mapping[str, Tensor], origin: str) -> None:
    """Copy tensors into a model by name.

    Args:
        model: filled in place
        saved: every tensor of the model and no other
        origin: where the tensors come from, for the message

    Raises:
        UserError: naming the first tensor that does not fit
    """
    difference = _first_difference(model.state_dict(), saved)
    if difference:
        raise UserError(f"{origin} holds the weights of another model: {difference}")
    model.load_state_dict(saved)


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
