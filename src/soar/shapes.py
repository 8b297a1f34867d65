"""Shapes of batches: the first dimension is examples, the others are the image."""

from __future__ import annotations

from torch import Tensor


def per_example(values: Tensor, like: Tensor) -> Tensor:
    """Reshape one number per example so that it broadcasts over images.

    >>> import torch
    >>> per_example(torch.ones(2), torch.ones(2, 3, 4, 4)).shape
    torch.Size([2, 1, 1, 1])
    """
    return values.reshape(-1, *[1] * (like.dim() - 1))
