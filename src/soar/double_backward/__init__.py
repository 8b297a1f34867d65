"""Layers whose double backward is correct, fast and lean, put in place of PyTorch's by one context.

Penalties on input gradients differentiate a backward pass, and penalties on curvature once more. PyTorch's
formulas for that are slow on CPUs for convolutions and batch norms, wrong in the third derivative of most
normalizations, and missing for fused attention and some activations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from soar.double_backward.activations import hardsigmoid
from soar.double_backward.attention import attend
from soar.double_backward.batch_norm import normalize
from soar.double_backward.convolution import convolve
from soar.double_backward.distances import cdist
from soar.double_backward.normalization import instance_norm, layer_norm
from soar.double_backward.relu import rectify
from soar.double_backward.softmax import is_forward, log_softmax, logsumexp, softmax

__all__ = ["FastDoubleBackward"]

_OURS: dict[Callable[..., Any], tuple[Any, ...]] = {
    convolve: (torch.conv2d,),
    rectify: (F.relu, torch.relu, Tensor.relu),
    normalize: (F.batch_norm,),
    layer_norm: (torch.layer_norm,),
    instance_norm: (torch.instance_norm,),
    attend: (F.scaled_dot_product_attention,),
    softmax: (torch.softmax, Tensor.softmax, torch.special.softmax),
    log_softmax: (torch.log_softmax, Tensor.log_softmax, torch.special.log_softmax),
    logsumexp: (torch.logsumexp, Tensor.logsumexp, torch.special.logsumexp),
    hardsigmoid: (F.hardsigmoid,),
    cdist: (torch.cdist,),
}
_REPLACED = {theirs: ours for ours, functions in _OURS.items() for theirs in functions}

# Written in Python, from functions that are replaced.
_COMPOSED = frozenset(
    {F.multi_head_attention_forward, F.layer_norm, F.instance_norm}
    | {F.softmax, F.softmin, F.log_softmax, F.gumbel_softmax}
)

_WRONG_FORWARD = frozenset(
    {torch.det, Tensor.det, torch.linalg.det, torch.logdet, Tensor.logdet}
    | {torch.linalg.slogdet, torch.slogdet, Tensor.slogdet, torch.linalg.solve, torch.linalg.solve_ex}
)
"""whose forward derivative PyTorch differentiates wrongly; gradients of gradients are correct"""


class FastDoubleBackward(TorchFunctionMode):
    """Within this context, the layers of any model differentiate twice, and fast.

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
        """Replace the layers that have a form of ours and pass everything else on."""
        named = kwargs or {}
        if func in _REPLACED:
            with torch._C.DisableTorchFunction():
                replaced = _REPLACED[func](*args, **named)
            if replaced is not None:
                return replaced
        if func in _WRONG_FORWARD and is_forward():
            raise NotImplementedError(f"the forward derivative of {func.__name__} is differentiated wrongly")
        if func in _COMPOSED:
            with self:
                return _opened(func)(*args, **named)
        return func(*args, **named)


@cache
def _opened(func: FunctionType) -> FunctionType:
    """Return a function that does not check whether it is replaced, so that what it calls can be."""
    checks = [name for name in func.__code__.co_names if name.startswith("has_torch_function")]
    scope = {**func.__globals__, **dict.fromkeys(checks, lambda *_: False)}
    copy = FunctionType(func.__code__, scope, func.__name__, func.__defaults__, func.__closure__)
    copy.__kwdefaults__ = func.__kwdefaults__
    return copy
