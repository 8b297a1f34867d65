r"""Attention that can be differentiated twice: PyTorch's fused kernels give only a first derivative.

softmax(q k^T / \sqrt d + mask) v, written out in ordinary operations.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from soar.double_backward.softmax import softmax


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return `F.scaled_dot_product_attention` of the same arguments.

    >>> q = torch.tensor([[[1.0, 0.0]]])
    >>> k, v = torch.tensor([[[2.0, 0.0], [2.0, 1.0]]]), torch.tensor([[[1.0], [3.0]]])
    >>> attend(q, k, v)
    tensor([[[2.]]])
    """
    if enable_gqa:
        key, value = (one.repeat_interleave(query.shape[-3] // one.shape[-3], -3) for one in (key, value))
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    if attn_mask is not None:
        is_flag = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if is_flag else scores + attn_mask
    weights = softmax(scores, -1)
    weights = scores.softmax(-1) if weights is None else weights
    return torch.dropout(weights, dropout_p, train=dropout_p > 0) @ value
