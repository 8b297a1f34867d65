"""Activations of which PyTorch has a first derivative only."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def hardsigmoid(x: Tensor, inplace: bool = False) -> Tensor:
    """Return `F.hardsigmoid` of the same arguments: x / 6 + 1/2, cut off at 0 and 1.

    >>> import torch
    >>> hardsigmoid(torch.tensor([-4.0, 0.0, 1.5, 4.0]))
    tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """
    found = F.hardtanh(x / 6 + 0.5, 0.0, 1.0)
    return x.copy_(found) if inplace else found
