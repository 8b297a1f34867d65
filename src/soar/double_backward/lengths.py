"""Norms and distances: the 1-norm in a forward derivative, and distances that can be differentiated twice."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from soar.double_backward.softmax import is_forward


def vector_norm(
    x: Any,
    ord: Any = 2,  # noqa: A002 - the name of PyTorch
    dim: Any = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
    **others: Any,
) -> Tensor | None:
    """Return `torch.linalg.vector_norm` of the same arguments, or None for PyTorch to do it.

    Only the forward derivative of the 1-norm is written over before the pass back.

    >>> from torch.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     vector_norm(torch.tensor([3.0, -4.0]), 1)
    tensor(7.)
    """
    if others or ord != 1 or not is_forward() or not x.is_floating_point():
        return None
    found: Tensor = x.abs().sum(dim, keepdim=keepdim, dtype=dtype)
    return found


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Tensor:  # noqa: ARG001
    """Return `torch.cdist` of the same arguments, which PyTorch differentiates only once.

    >>> cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[5., 0.]])
    """
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    norm = vector_norm(difference, p, -1)
    return torch.linalg.vector_norm(difference, p, -1) if norm is None else norm
