"""The passes inside a regularizer: the loss at other points, BatchNorm there, numerical precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd

from soar.losses import cross_entropy
from soar.objectives.objective import Output
from soar.prediction import logits_of

Statistics = Literal["batch", "running"]


class LossAt:
    """The cross-entropy of a batch as a function of its images; keeps the logits of every call.

    Args:
        model: any module that maps images in [0, 1] to logits
        y: true classes
    """

    def __init__(self, model: nn.Module, y: Tensor) -> None:
        self.model, self.y = model, y
        self.logits: list[Tensor] = []

    def __call__(self, images: Tensor) -> Tensor:
        """Return the loss of each example at these images."""
        self.logits.append(logits_of(self.model, images))
        return cross_entropy(self.logits[-1], self.y)


def regularized(loss: Tensor, penalty: Tensor, logits: Tensor, **metrics: Tensor) -> Output:
    """Return the mean of loss plus penalty, with the metrics that every regularizer reports.

    Args:
        loss: the classification loss of each example
        penalty: the penalty of each example
        logits: the predictions that the loss was computed from
        metrics: further values per example, reported as means
    """
    logits = logits.detach()
    parts = {"cross_entropy": loss, "penalty": penalty, **metrics}
    means = {name: values.detach().mean() for name, values in parts.items()}
    means["confidence"] = logits.softmax(dim=1).amax(dim=1).mean()
    return Output((loss + penalty).mean(), logits, means)


def has_batch_norm(model: nn.Module) -> bool:
    """Return whether any layer of a model mixes the examples of a batch."""
    return any(isinstance(module, _BatchNorm) for module in model.modules())


@contextmanager
def statistics(model: nn.Module, kind: Statistics) -> Iterator[None]:
    """Choose what BatchNorm normalizes by in passes that must not update its running statistics.

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
    """Compute in true float32: a difference of gradients magnifies rounding errors a thousandfold.

    PyTorch has an older and a newer way to allow less, and refuses to tell in the older way what was set in
    the newer. Both are left as they were.

    Args:
        device: where autocast, TensorFloat-32 and bfloat16 inside of float32 products are disabled
    """
    newer = [one for one in _backends() if hasattr(one, "fp32_precision")]
    precisions = [one.fp32_precision for one in newer]
    older = _older_precision()
    try:
        if older is not None:
            torch.set_float32_matmul_precision("highest")
            torch.backends.cudnn.allow_tf32 = False
        for one in newer:
            one.fp32_precision = "ieee"
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        if older is not None:
            torch.set_float32_matmul_precision(older[0])
            torch.backends.cudnn.allow_tf32 = older[1]
        for one, precision in zip(newer, precisions, strict=True):
            one.fp32_precision = precision


def _backends() -> list[Any]:
    """Return the parts of PyTorch that have a precision of their own, in the newer way."""
    cuda, cudnn, mkldnn = torch.backends.cuda, torch.backends.cudnn, torch.backends.mkldnn
    kinds = (cuda, "matmul"), (cudnn, "conv"), (cudnn, "rnn")
    more = (mkldnn, "matmul"), (mkldnn, "conv"), (mkldnn, "rnn")
    return [getattr(owner, name) for owner, name in (*kinds, *more) if hasattr(owner, name)]


def _older_precision() -> tuple[str, bool] | None:
    """Return what was set for products and convolutions in the older way, None if the newer was used."""
    try:
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return None


def depends_on_mode(model: nn.Module) -> bool:
    """Return whether a model's predictions in training mode differ from those in eval mode.

    Only layers that are known to do so are found: BatchNorm and its kin, and dropout. A module that reads
    `self.training` itself is not recognized.

    >>> depends_on_mode(nn.Sequential(nn.Linear(2, 2), nn.Dropout())), depends_on_mode(nn.Linear(2, 2))
    (True, False)
    """
    return any(isinstance(module, _NormBase | _DropoutNd) and module.training for module in model.modules())
