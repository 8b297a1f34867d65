"""Activations of which PyTorch has a first derivative only, or no forward derivative to differentiate."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from soar.double_backward.softmax import is_forward


def hardsigmoid(x: Any, inplace: bool = False) -> Tensor:
    """Return `F.hardsigmoid` of the same arguments: x / 6 + 1/2, cut off at 0 and 1.

    >>> import torch
    >>> hardsigmoid(torch.tensor([-4.0, 0.0, 1.5, 4.0]))
    tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """
    found = F.hardtanh(x / 6 + 0.5, 0.0, 1.0)
    return x.copy_(found) if inplace else found


def glu(x: Any, dim: int = -1) -> Tensor | None:
    """Return `F.glu` of the same arguments, or None for PyTorch to do it: its derivatives back are right.

    >>> import torch
    >>> from torch.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     glu(torch.tensor([3.0, 0.0]))
    tensor([1.5000])
    """
    if not is_forward() or x.shape[dim] % 2:
        return None
    value, gate = x.chunk(2, dim)
    found: Tensor = value * gate.sigmoid()
    return found
