"""Distances that can be differentiated twice: PyTorch gives them only a first derivative."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Tensor:  # noqa: ARG001
    """Return `torch.cdist` of the same arguments.

    >>> cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[5., 0.]])
    """
    distances: Tensor = torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)
    return distances
