"""An export is done when its file, loaded again, returns the logits of the model, for several batch sizes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from soar import files
from soar.errors import UserError, first_line
from soar.model_state import placement
from soar.prediction import LogitsOnly, as_input, predict

Predictor = Callable[[Tensor], Tensor]
"""from images to the logits of an exported file"""

# Kernels of other programs add in another order; logits then differ in their last digits.
_ALLOWED = 1e-4


@dataclass(frozen=True)
class ExportedFile:
    """A file whose logits were compared with those of the model."""

    path: Path
    batch_sizes: tuple[int, ...]
    """of the batches on which they were compared"""
    difference: float
    """the largest of any logit"""

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.batch_sizes))
        return f"{self.path}: same predictions for batches of {sizes}; logits differ by {self.difference:.1e}"


def export_checked(
    model: nn.Module,
    path: str | Path,
    sample: Tensor,
    as_bytes: Callable[[nn.Module, Tensor], bytes],
    load: Callable[[Path], Predictor],
) -> ExportedFile:
    """Write a copy of a model to a file, run the file, and keep it only if its logits are those of the model.

    The copy is in eval mode on the CPU; the model is left as it was.

    Args:
        model: any module that maps images in [0, 1] to logits
        path: the file to make
        sample: two images or more, uint8 or float in [0, 1]
        as_bytes: turns a model into the contents of a file, given a batch to follow it with; exporters that
            write files themselves abort the process when the disk is full
        load: opens the file as other programs do

    Raises:
        UserError: if the file exists, its folder does not, the model cannot be written or the file gives
            other predictions
    """
    path = Path(path)
    if path.exists():
        raise UserError(f"{path} exists already; choose another name")
    if not path.parent.is_dir():
        raise UserError(f"{path}: the folder {path.parent} does not exist")
    if len(sample) < 2:
        raise UserError(f"sample: got {len(sample)} images, expected at least 2")
    frozen = copy.deepcopy(model).cpu().eval().requires_grad_(False)
    images = as_input(sample, *placement(frozen))
    predict(frozen, images)  # reports clearly what is wrong with a model that returns no logits
    with torch.no_grad():
        # Wrapping changes the names in the file, so it is done only where it has to be.
        if not isinstance(frozen(images[:1].clone()), Tensor):
            frozen = LogitsOnly(frozen).eval()
    try:
        content = as_bytes(frozen, images)
    except UserError:
        raise
    except Exception as error:  # a user's module may fail in any way
        raise UserError(f"the model cannot be exported to {path} ({first_line(error)})") from error
    with files.temporary_folder(path.parent) as folder:
        written = folder / path.name
        files.write(written, content)
        with warnings.catch_warnings():
            # PyTorch warns that TorchScript is deprecated, and of names inside itself that it will change.
            warnings.simplefilter("ignore")
            exported = load(written)
        difference, sizes = _compare(frozen, exported, images, path)
    files.write(path, content, overwrite=False)
    return ExportedFile(path, sizes, difference)


def _compare(
    model: nn.Module, exported: Predictor, images: Tensor, path: Path
) -> tuple[float, tuple[int, ...]]:
    """Compare logits on the batch that was exported with, on one image and on a larger batch."""
    batches = (images, images[:1], torch.cat([images.flip(0), images, images[:1]]))
    largest = 0.0
    for batch in batches:
        with torch.no_grad():
            wanted = model(batch.clone())
        try:
            with torch.no_grad():
                got = exported(batch.clone())  # either may work in place
        except Exception as error:  # as above
            reason = first_line(error)
            raise UserError(f"{path}: the file fails on a batch of {len(batch)} ({reason})") from error
        largest = max(largest, _difference(got, wanted, path))
    return largest, tuple(len(batch) for batch in batches)


def _difference(got: Tensor, wanted: Tensor, path: Path) -> float:
    """Return the largest difference of logits; refuse more than rounding, and any other prediction."""
    where = f"{path}: for a batch of {len(wanted)} the file gives"
    if got.shape != wanted.shape:
        raise UserError(f"{where} logits of shape {tuple(got.shape)}, the model {tuple(wanted.shape)}")
    gap, scale = float((got - wanted).abs().max()), float(wanted.abs().max())
    if not gap <= _ALLOWED * scale or not torch.equal(got.argmax(dim=1), wanted.argmax(dim=1)):
        raise UserError(f"{where} other logits; they differ by {gap:.1e}, the largest is {scale:.1e}")
    return gap
