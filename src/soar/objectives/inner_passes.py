"""How a regularizer's passes treat BatchNorm and numerical precision."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd

Statistics = Literal["batch", "running"]


def has_batch_norm(model: nn.Module) -> bool:
    """Return whether any layer of a model mixes the examples of a batch."""
    return any(isinstance(module, _BatchNorm) for module in model.modules())


def warn_about_batch_norm(model: nn.Module, name: str) -> None:
    """Say once, when an objective is made, that BatchNorm and curvature do not go together."""
    if has_batch_norm(model):
        warnings.warn(
            f"{name} on a model with BatchNorm: batch statistics couple the examples, so curvature is no"
            " longer each example's own; the paper found no gain with it. Norm 'group' or 'none' avoids it.",
            stacklevel=3,
        )


@contextmanager
def statistics(model: nn.Module, kind: Statistics) -> Iterator[None]:
    """Choose what BatchNorm normalizes by in passes that must not count.

    Args:
        model: its layers are put back as they were
        kind: "batch" uses the batch's own statistics and does not store them; "running" uses the stored ones
    """
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.training]
    before = [(layer, layer.track_running_stats) for layer in layers]
    try:
        for layer in layers:
            if kind == "running":
                layer.training = False
            else:
                layer.track_running_stats = False
        yield
    finally:
        for layer, tracked in before:
            layer.training = True
            layer.track_running_stats = tracked


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Compute in true float32: a difference of gradients magnifies rounding a thousandfold.

    Args:
        device: where autocast and TensorFloat-32 are switched off for the while
    """
    matmul, cudnn = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = matmul
        torch.backends.cudnn.allow_tf32 = cudnn


def depends_on_mode(model: nn.Module) -> bool:
    """Return whether a model in training answers differently than in eval mode.

    Only layers that are known to do so are found: BatchNorm and its kin, and dropout. A model that asks
    `self.training` by itself passes for one that does not.

    >>> depends_on_mode(nn.Sequential(nn.Linear(2, 2), nn.Dropout())), depends_on_mode(nn.Linear(2, 2))
    (True, False)
    """
    return any(isinstance(module, _NormBase | _DropoutNd) and module.training for module in model.modules())
