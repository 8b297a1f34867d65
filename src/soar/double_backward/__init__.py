"""Layers whose double backward is fast and lean, put in place of PyTorch's by one context.

Penalties on input gradients differentiate a backward pass. PyTorch's formulas for that are correct, but slow
on CPUs for convolutions and batch norms, and missing for attention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from soar.double_backward.attention import attend
from soar.double_backward.batch_norm import normalize
from soar.double_backward.convolution import convolve
from soar.double_backward.relu import rectify

__all__ = ["FastDoubleBackward"]

_FASTER: dict[Any, Callable[..., Tensor | None]] = {
    torch.conv2d: convolve,
    F.relu: rectify,
    torch.relu: rectify,
    Tensor.relu: rectify,
    F.batch_norm: normalize,
    F.scaled_dot_product_attention: attend,
}


class FastDoubleBackward(TorchFunctionMode):
    """Within this context, convolutions, ReLUs and batch norms of any model differentiate twice fast.

    The model is not changed. What is not an ordinary layer on a batch of images is left to PyTorch.
    Inside, gradients with `create_graph=True` may be taken with respect to *images* only; one with respect to
    weights would come out as NaN. The final `backward()` gives weights their gradients as usual. Images that
    no longer need a gradient by then, with `requires_grad_(False)`, do not cost one.

    >>> layer = torch.nn.Conv2d(1, 1, 1, bias=False)
    >>> _ = torch.nn.init.constant_(layer.weight, 3.0)
    >>> x = torch.ones(1, 1, 1, 1, requires_grad=True)
    >>> with FastDoubleBackward():
    ...     (g,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    >>> g.sum().backward()  # g = 2 w^2 x, so its gradient by w is 4 w x
    >>> layer.weight.grad.item()
    12.0
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Replace the layers that have a faster form and pass everything else on."""
        named = kwargs or {}
        if func in _FASTER:
            with torch._C.DisableTorchFunction():
                replaced = _FASTER[func](*args, **named)
            if replaced is not None:
                return replaced
        if func is F.multi_head_attention_forward:
            if forward_ad._current_level >= 0:
                # PyTorch's softmax writes over what its forward derivative needs for the way back.
                raise NotImplementedError("MultiheadAttention cannot be differentiated forwards and back")
            # A function in Python: what it calls passes by this context, so the kernel is chosen for it.
            with sdpa_kernel(SDPBackend.MATH):
                return func(*args, **named)
        return func(*args, **named)
