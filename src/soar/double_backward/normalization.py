r"""Normalization written out, for derivatives of the third order.

y = \gamma (x - E x) / \sqrt{E (x - E x)^2 + \epsilon} + \beta

The curvature of a loss is a second derivative by the pixels, and training takes one more by the weights. For
layer, instance and batch norm PyTorch's formulas take mean and deviation for constants there, and return a
wrong gradient without a word. Second derivatives, and everything about group norm, are correct.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def standardize(x: Tensor, dim: tuple[int, ...], eps: float) -> Tensor:
    """Return the numbers with mean 0 and variance 1 over some dimensions.

    >>> standardize(torch.tensor([[1.0, 3.0]]), (1,), 0.0)
    tensor([[-1.,  1.]])
    """
    centered = x - x.mean(dim, keepdim=True)
    return centered * (centered.square().mean(dim, keepdim=True) + eps).rsqrt()


def layer_norm(
    x: Any,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,  # noqa: ARG001
) -> Tensor | None:
    """Return `torch.layer_norm` of the same arguments, or None for PyTorch to do it."""
    shape = tuple(normalized_shape)
    if _is_mixed(x) or tuple(x.shape[-len(shape) :]) != shape:
        return None
    found = standardize(x, tuple(range(-len(shape), 0)), eps)
    found = found if weight is None else found * weight
    return found if bias is None else found + bias


def channel_norm(
    x: Tensor, dim: tuple[int, ...], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Return images or sequences standardized over some dimensions, with a factor and a shift per channel.

    Args:
        x: with channels in the second dimension
        dim: all others for batch norm, all but the examples for instance norm
        weight: the factors, if any
        bias: the shifts, if any
        eps: added to the variance
    """
    channels = (-1, *(1,) * (x.dim() - 2))
    found = standardize(x, dim, eps)
    found = found if weight is None else found * weight.view(channels)
    return found if bias is None else found + bias.view(channels)


def instance_norm(
    x: Any,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor | None:
    """Return `torch.instance_norm` of the same arguments, or None for PyTorch to do it."""
    if not use_input_stats or _is_mixed(x) or x.dim() < 3:
        return None
    if running_mean is not None:
        with torch.no_grad():
            # For what it does to the running statistics.
            torch.instance_norm(
                x.detach(), None, None, running_mean, running_var, True, momentum, eps, cudnn_enabled
            )
    return channel_norm(x, tuple(range(2, x.dim())), weight, bias, eps)


def batch_norm(
    x: Any,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
) -> Tensor:
    """Return `F.batch_norm` by the batch's own statistics."""
    dim = (0, *range(2, x.dim()))
    if running_mean is not None:
        with torch.no_grad():
            torch.nn.functional.batch_norm(
                x.detach(), running_mean, running_var, None, None, True, momentum, eps
            )
    return channel_norm(x, dim, weight, bias, eps)


def _is_mixed(x: Tensor) -> bool:
    """Return whether autocast chooses the precision, as it does for PyTorch's own functions only."""
    return torch.is_autocast_enabled(x.device.type)
