"""A copy of a model that returns the same logits in less time, for the many passes of an evaluation."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.fuse.batch_norm import CannotFuseError, fuse_batch_norm, tolerance
from soar.model_state import probing
from soar.prediction import logits_of


def inference_copy(model: nn.Module, sample: Tensor) -> nn.Module:
    """Fuse batch norms, store filters with the channel as the fastest index and rectify in place, in a copy.

    Logits change by rounding only: what would change them by more than 1e-5 of the largest is not done.
    A third of the time of a narrow network goes into reading and writing activations, so a ReLU that writes
    where it reads is worth it; it is left as it is where the same numbers are read again.

    Args:
        model: any module that maps images to logits; it is not changed
        sample: a few images as the model takes them

    Returns:
        The copy, or the model itself where it cannot be copied, would not be the same or is TorchScript.
    """
    try:
        fused = fuse_batch_norm(model, sample)
    except CannotFuseError:
        fused = model
    if any(isinstance(part, torch.jit.ScriptModule) for part in model.modules()):
        # Its parameters cannot be stored in another layout: they would no longer be leaves of a graph.
        return fused
    try:
        copied = copy.deepcopy(model) if fused is model else fused
        # Training keeps some narrow models off this layout, for the sake of a kernel of the weights' gradient
        # that an evaluation never needs.
        copied.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        agrees = _agree(model, copied, sample)
    except Exception:  # any module may fail to be copied, or to be used as a copy, in any way
        return fused
    if not agrees:
        return fused
    rectifiers = [part for part in copied.modules() if type(part) is nn.ReLU and not part.inplace]
    _rectify_in_place(rectifiers, True)
    if not (_agree(model, copied, sample) and _differentiates(copied, sample)):
        _rectify_in_place(rectifiers, False)
    return copied


def _rectify_in_place(rectifiers: list[nn.ReLU], inplace: bool) -> None:
    for part in rectifiers:
        part.inplace = inplace


def _differentiates(model: nn.Module, sample: Tensor) -> bool:
    """Return whether autograd accepts the model; it refuses when a number it needs was written over."""
    with probing(model), torch.enable_grad():
        points = sample.clone().requires_grad_()
        try:
            torch.autograd.grad(logits_of(model, points).sum(), points)
        except (RuntimeError, UserError):
            return False
    return True


def _agree(model: nn.Module, other: nn.Module, sample: Tensor) -> bool:
    """Return whether two models in eval mode give the same logits, but for rounding."""
    with probing(model), probing(other), torch.no_grad():
        logits, others = logits_of(model, sample), logits_of(other, sample)
    if not isinstance(logits, Tensor) or not logits.numel():
        return False
    return bool((logits - others).abs().max() <= tolerance(logits.dtype) * logits.abs().max())
