r"""Copies of a model that return the same logits in less time: batch norms fused, ReLUs in place.

In eval mode a batch norm has fixed numbers for every channel: mean m, variance v, scale gamma, shift beta.
Behind a convolution or a linear layer it is that layer with other numbers:

    gamma (W x + c - m) / sqrt(v + eps) + beta  =  (s W) x + (s (c - m) + beta),    s = gamma / sqrt(v + eps)
"""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor, fx, nn
from torch.nn.utils import parametrize
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from soar.errors import UserError
from soar.model_state import probing
from soar.prediction import find_logits, logits_of

__all__ = ["fuse_batch_norm", "inference_copy"]

# Exactly these types: a subclass may do something else with its numbers.
_LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def inference_copy(model: nn.Module, sample: Tensor) -> nn.Module:
    """Fuse batch norms, store filters with the channel as the fastest index and rectify in place, in a copy.

    Logits change by rounding only: what would change them by more than 1e-5 of the largest is not done.
    A third of the time of a narrow network goes into reading and writing activations, so a ReLU that writes
    where it reads is worth it; it is left as it is where the same numbers are read again.

    Args:
        model: any module that maps images to logits; it is not changed
        sample: a few images as the model takes them

    Returns:
        The copy, or the model itself where it cannot be copied, would not be the same or is TorchScript.
    """
    fused = fuse_batch_norm(model, sample) or model
    if any(isinstance(part, torch.jit.ScriptModule) for part in model.modules()):
        # Its parameters cannot be stored in another layout: they would no longer be leaves of a graph.
        return fused
    try:
        copied = copy.deepcopy(model) if fused is model else fused
        # Training keeps some narrow models off this layout, for the sake of a kernel of the weights' gradient
        # that an evaluation never needs.
        copied.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        agrees = _agree(model, copied, sample)
    except Exception:  # any module may fail to be copied, or to be used as a copy, in any way
        return fused
    if not agrees:
        return fused
    rectifiers = [part for part in copied.modules() if type(part) is nn.ReLU and not part.inplace]
    _rectify_in_place(rectifiers, True)
    if not (_agree(model, copied, sample) and _differentiates(copied, sample)):
        _rectify_in_place(rectifiers, False)
    return copied


def fuse_batch_norm(model: nn.Module, sample: Tensor) -> nn.Module | None:
    """Copy a model, in eval mode, with every batch norm fused that is the only user of the layer before it.

    Symbolic tracing finds the convolutions and linear layers with such norms. The copy still runs the model's
    own `forward`, on frozen parameters that lie in memory as before; the given model is neither changed nor
    called. A pair is left as it is where one of the two is called more than once, stays in training mode or
    has parameters that are read elsewhere, and where the norm has no running statistics or, behind a linear
    layer, no scale and shift.

    Args:
        model: any module that maps inputs to logits, in any mode
        sample: a few inputs as the model takes them; three forward passes are made on them

    Returns:
        The copy; None if no pair is left, the model cannot be copied, traced or evaluated on the sample, has
        hooks or parametrizations, is randomized, or if fusing changes logits on the sample by more than 1e-5
        of the largest (1e-12 in float64).

    >>> layer, norm = nn.Conv2d(1, 1, 1, bias=False), nn.BatchNorm2d(1, eps=1.0)
    >>> numbers = [(layer.weight, 3), (norm.running_mean, 1), (norm.running_var, 3), (norm.weight, 4)]
    >>> for tensor, number in numbers:
    ...     _ = nn.init.constant_(tensor, number)
    >>> fused = fuse_batch_norm(nn.Sequential(layer, norm), torch.rand(2, 1, 2, 2))
    >>> fused[0].weight.item(), fused[0].bias.item()  # 4 (3 x - 1) / sqrt(3 + 1)
    (6.0, -2.0)
    """
    parts = list(model.modules())
    if not any(type(part) in _NORMS for part in parts) or any(map(_has_attachments, parts)):
        return None
    devices = [sample.device] if sample.device.type == "cuda" else []
    with torch.no_grad(), torch.random.fork_rng(devices=devices):
        try:
            # Tracing leaves its marks on what it traces, so that copy is thrown away.
            pairs = _pairs(_frozen_copy(model))
            copied = _frozen_copy(model)
            state = _generator_state(sample.device)
            # Clones, because a model may work in place.
            logits, again = (find_logits(copied(sample.clone())) for _ in range(2))
            is_fixed = torch.equal(state, _generator_state(sample.device)) and _are_same(logits, again)
            for layer, norm in pairs:
                _merge(copied, layer, norm)
            if not (pairs and is_fixed):
                return None
            return copied if _are_same(logits, find_logits(copied(sample.clone()))) else None
        except Exception:  # any module may fail to be copied, traced, fused or called, in any way
            return None


def _has_attachments(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    return any(hooks) or bool(module._backward_pre_hooks) or parametrize.is_parametrized(module)


def _frozen_copy(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model).eval().requires_grad_(False)


class _Tracer(fx.Tracer):
    """Traces only into modules that hold something to fuse; the others need not be traceable."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        is_of_interest = any(type(inner) in (*_LAYERS, *_NORMS) for inner in m.modules())
        return not is_of_interest or super().is_leaf_module(m, module_qualified_name)


def _pairs(model: nn.Module) -> list[tuple[str, str]]:
    """Return the names of every layer and of the batch norm behind it that can be fused."""
    arguments = list(inspect.signature(model.forward).parameters.values())
    defaults = {one.name: one.default for one in arguments[1:] if one.default is not one.empty}
    graph = _Tracer().trace(model, defaults)
    modules = dict(model.named_modules())
    calls = Counter(str(node.target) for node in graph.nodes if node.op == "call_module")
    read = {str(node.target).rpartition(".")[0] for node in graph.nodes if node.op == "get_attr"}
    pairs = []
    for node in graph.nodes:
        before = node.args[0] if node.args else None
        if not isinstance(before, fx.Node) or {node.op, before.op} != {"call_module"}:
            continue
        first, second = str(before.target), str(node.target)
        layer, norm = modules[first], modules[second]
        if type(layer) not in _LAYERS or type(norm) not in _NORMS:
            continue
        is_alone = len(before.users) == calls[first] == calls[second] == 1 and not read & {first, second}
        is_fixed = not (layer.training or norm.training) and norm.running_mean is not None
        # PyTorch's function for linear layers wants both scale and shift.
        if is_alone and is_fixed and (norm.affine or not isinstance(layer, nn.Linear)):
            pairs.append((first, second))
    return pairs


def _merge(model: nn.Module, first: str, second: str) -> None:
    """Put a layer with the numbers of both in place of the first and nothing in place of the second."""
    layer, norm = model.get_submodule(first), model.get_submodule(second)
    fuse: Callable[..., nn.Module] = (
        fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval
    )
    swaps = {layer: fuse(layer, norm), norm: nn.Identity().eval()}
    # One module may be known by several names.
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if module in swaps:
            parent, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(parent), attribute, swaps[module])


def _rectify_in_place(rectifiers: list[nn.ReLU], inplace: bool) -> None:
    for part in rectifiers:
        part.inplace = inplace


def _differentiates(model: nn.Module, sample: Tensor) -> bool:
    """Return whether autograd accepts the model; it refuses when a number it needs was written over."""
    with probing(model), torch.enable_grad():
        points = sample.clone().requires_grad_()
        try:
            torch.autograd.grad(logits_of(model, points).sum(), points)
        except (RuntimeError, UserError):
            return False
    return True


def _agree(model: nn.Module, other: nn.Module, sample: Tensor) -> bool:
    """Return whether two models in eval mode give the same logits, but for rounding."""
    with probing(model), probing(other), torch.no_grad():
        return _are_same(logits_of(model, sample), logits_of(other, sample))


def _are_same(logits: Tensor, others: Tensor) -> bool:
    """Return whether these are the same logits up to rounding; NaN is not the same."""
    if not logits.numel() or logits.shape != others.shape:
        return False
    tolerance = 1e-12 if logits.dtype == torch.float64 else 1e-5
    return bool((logits - others).abs().max() <= tolerance * logits.abs().max())


def _generator_state(device: torch.device) -> Tensor:
    host = torch.get_rng_state()
    return torch.cat([host, torch.cuda.get_rng_state(device)]) if device.type == "cuda" else host
