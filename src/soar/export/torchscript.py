"""Export to TorchScript, for C++ programs and older versions of PyTorch."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from soar.export.checking import Answers, Checked, export_checked


def to_torchscript(model: nn.Module, path: str | Path, sample: Tensor) -> Checked:
    """Write a model as a TorchScript file, by tracing; `torch.jit.load` opens it without this package.

    The size of a batch is free, the size of an image is that of the sample.

    Args:
        model: any module that maps images in [0, 1] to logits; left as it was
        path: the file to make, such as model.pt
        sample: two images or more, uint8 or float in [0, 1]

    Raises:
        UserError: if the file exists, the model cannot be traced or the file gives other predictions
    """
    return export_checked(model, path, sample, _as_bytes, _load)


def _as_bytes(model: nn.Module, images: Tensor) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # PyTorch advises against TorchScript, and fears for shapes that become numbers; the check will tell.
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(model, (images,), check_trace=False), buffer)
    return buffer.getvalue()


def _load(path: Path) -> Answers:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        loaded: Answers = torch.jit.load(path)
        return loaded
