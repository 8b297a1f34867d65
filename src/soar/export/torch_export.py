"""Export with `torch.export`, PyTorch's own format for compilers and for deployment."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from soar.export.checking import Answers, Checked, export_checked


def to_torch_export(model: nn.Module, path: str | Path, sample: Tensor) -> Checked:
    """Write a model as an exported program; `torch.export.load` opens it without this package.

    The size of a batch is free, the size of an image is that of the sample.

    Args:
        model: any module that maps images in [0, 1] to logits; left as it was
        path: the file to make, such as model.pt2
        sample: two images or more, uint8 or float in [0, 1]

    Raises:
        UserError: if the file exists, the model cannot be exported or the file gives other predictions
    """
    return export_checked(model, path, sample, _as_bytes, _load)


def _as_bytes(model: nn.Module, images: Tensor) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # PyTorch warns of names inside itself that it will change.
        warnings.simplefilter("ignore", FutureWarning)
        free = ({0: torch.export.Dim("batch", min=1)},)
        torch.export.save(torch.export.export(model, (images,), dynamic_shapes=free), buffer)
    return buffer.getvalue()


def _load(path: Path) -> Answers:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        loaded: Answers = torch.export.load(path).module()
        return loaded
