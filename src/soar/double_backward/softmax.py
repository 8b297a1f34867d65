r"""Softmax and its kin, written out for a forward derivative that is differentiated backward.

PyTorch's own formulas for \( J z \) of these functions write over numbers that the pass back needs. Where no
forward derivative is asked for, theirs are correct and faster, and are left alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def is_forward() -> bool:
    """Return whether forward derivatives are being computed."""
    return forward_ad._current_level >= 0


def softmax(x: Any, dim: Any, dtype: torch.dtype | None = None, **others: Any) -> Tensor | None:
    """Return `torch.softmax` of the same arguments, or None for PyTorch to do it.

    >>> with forward_ad.dual_level():
    ...     softmax(torch.tensor([0.0, 1.0986123]), 0)
    tensor([0.2500, 0.7500])
    """
    if others or not is_forward():
        return None
    weights = _shifted(x, dim, dtype).exp()
    return weights / weights.sum(dim, keepdim=True)


def log_softmax(x: Any, dim: Any, dtype: torch.dtype | None = None, **others: Any) -> Tensor | None:
    """Return `torch.log_softmax` of the same arguments, or None for PyTorch to do it."""
    if others or not is_forward():
        return None
    scores = _shifted(x, dim, dtype)
    return scores - scores.exp().sum(dim, keepdim=True).log()


def logsumexp(x: Any, dim: Any, keepdim: bool = False, **others: Any) -> Tensor | None:
    """Return `torch.logsumexp` of the same arguments, or None for PyTorch to do it."""
    if others or not is_forward() or not x.is_floating_point():
        return None
    top = x.detach().amax(dim, keepdim=True)
    # Nothing is subtracted from an infinite score, as infinity less infinity is no number.
    top = top.where(top.isfinite(), 0)
    found: Tensor = (x - top).exp().sum(dim, keepdim=True).log() + top
    return found if keepdim else found.squeeze(dim)


def _shifted(x: Tensor, dim: Any, dtype: torch.dtype | None) -> Tensor:
    """Return scores of which the largest is zero."""
    scores = x if dtype is None else x.to(dtype)
    return scores - scores.detach().amax(dim, keepdim=True)
