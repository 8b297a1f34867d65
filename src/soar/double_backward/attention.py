r"""Attention that can be differentiated twice: PyTorch's fused kernels give only a first derivative.

softmax(q k^T / \sqrt d + mask) v, written out in ordinary operations. The softmax is written out as well,
because PyTorch's own cannot be differentiated backwards through a forward derivative.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **others: Any,
) -> Tensor | None:
    """Return `F.scaled_dot_product_attention` of the same arguments, or None for PyTorch to do it.

    Dropout, and arguments that are not named here, are left to PyTorch.

    >>> q = torch.tensor([[[1.0, 0.0]]])
    >>> k, v = torch.tensor([[[2.0, 0.0], [2.0, 1.0]]]), torch.tensor([[[1.0], [3.0]]])
    >>> attend(q, k, v)
    tensor([[[2.]]])
    """
    if dropout_p or any(others.values()):
        return None
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    if attn_mask is not None:
        is_flag = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if is_flag else scores + attn_mask
    return softmax(scores) @ value


def softmax(scores: Tensor) -> Tensor:
    """Return the softmax over the last dimension.

    >>> softmax(torch.tensor([0.0, math.log(3)]))
    tensor([0.2500, 0.7500])
    """
    weights = (scores - scores.detach().amax(dim=-1, keepdim=True)).exp()
    return weights / weights.sum(dim=-1, keepdim=True)
