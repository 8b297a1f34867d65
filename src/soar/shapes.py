"""Shapes of batches: the first dimension counts examples, the rest are the image."""

from __future__ import annotations

from torch import Tensor


def per_example(values: Tensor, like: Tensor) -> Tensor:
    """Shape one number an example so that it multiplies whole images.

    >>> import torch
    >>> per_example(torch.ones(2), torch.ones(2, 3, 4, 4)).shape
    torch.Size([2, 1, 1, 1])
    """
    return values.reshape(-1, *[1] * (like.dim() - 1))
