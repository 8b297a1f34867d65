"""A stand-in for gradients that nobody should ask for."""

from __future__ import annotations

import torch
from torch import Tensor


def poison(like: Tensor) -> Tensor:
    """Stand for a gradient that was not computed: NaN in every place, so that using it is noticed.

    It costs nothing unless somebody uses it: one number stands for all.

    Args:
        like: has the shape and the type of the gradient

    >>> poison(torch.zeros(2))
    tensor([nan, nan])
    """
    return torch.full((), torch.nan, dtype=like.dtype, device=like.device).expand_as(like)
