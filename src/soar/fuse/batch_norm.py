r"""Fuse batch norms into the layers before them: the same function with fewer passes over the data.

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

from soar.errors import first_line

# Exactly these types: a subclass may do something else with its numbers.
_LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


class CannotFuseError(Exception):
    """Why a model stays as it is."""


def fuse_batch_norm(model: nn.Module, sample: Tensor) -> nn.Module:
    """Copy a model, in eval mode, with every batch norm fused that is the only user of the layer before it.

    Symbolic tracing finds the convolutions and linear layers with such norms. The copy still runs the model's
    own `forward`, on frozen parameters that lie in memory as before; the given model is neither changed nor
    called. A pair is left as it is where one of the two is called more than once, stays in training mode or
    has parameters that are read elsewhere, and where the norm has no running statistics or, behind a linear
    layer, no scale and shift.

    Args:
        model: any module that maps inputs to logits, in any mode
        sample: a few inputs as the model takes them; three forward passes are made on them

    Raises:
        CannotFuseError: with the reason, if

            - no pair is left, or the model cannot be copied, traced or evaluated on the sample;
            - a module has hooks or parametrizations;
            - it is randomized: it draws random numbers, or two forward passes give different logits;
            - fusing changes logits on the sample by more than 1e-5 of the largest (1e-12 in float64)

    >>> layer, norm = nn.Conv2d(1, 1, 1, bias=False), nn.BatchNorm2d(1, eps=1.0)
    >>> numbers = [(layer.weight, 3), (norm.running_mean, 1), (norm.running_var, 3), (norm.weight, 4)]
    >>> for tensor, number in numbers:
    ...     _ = nn.init.constant_(tensor, number)
    >>> fused = fuse_batch_norm(nn.Sequential(layer, norm), torch.rand(2, 1, 2, 2))
    >>> fused[0].weight.item(), fused[0].bias.item()  # 4 (3 x - 1) / sqrt(3 + 1)
    (6.0, -2.0)
    """
    if not any(type(module) in _NORMS for module in model.modules()):
        raise CannotFuseError("it has no batch norm")
    _refuse_attachments(model)
    devices = [sample.device] if sample.device.type == "cuda" else []
    with torch.no_grad(), torch.random.fork_rng(devices=devices):
        # Tracing leaves its marks on what it traces, so that copy is thrown away.
        pairs = _pairs(_frozen_copy(model))
        copied = _frozen_copy(model)
        state = _generator_state(sample.device)
        logits, again = _logits(copied, sample), _logits(copied, sample)
        if not torch.equal(state, _generator_state(sample.device)):
            raise CannotFuseError("it draws random numbers")
        _require_same(logits, again, "a second forward pass")
        for layer, norm in pairs:
            _merge(copied, layer, norm)
        _require_same(logits, _logits(copied, sample), "fusing")
    return copied


def _refuse_attachments(model: nn.Module) -> None:
    for name, module in model.named_modules():
        forward, backward = module._forward_hooks, module._backward_hooks
        if forward or backward or module._forward_pre_hooks or module._backward_pre_hooks:
            raise CannotFuseError(f"{name or 'it'} has hooks")
        if parametrize.is_parametrized(module):
            raise CannotFuseError(f"{name or 'it'} has parametrizations")


def _frozen_copy(model: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(model).eval().requires_grad_(False)
    except Exception as error:  # a user's module may fail in any way, here and below
        raise CannotFuseError(f"it cannot be copied ({first_line(error)})") from error


class _Tracer(fx.Tracer):
    """Traces only into modules that hold something to fuse; the others need not be traceable."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        is_of_interest = any(type(inner) in (*_LAYERS, *_NORMS) for inner in m.modules())
        return not is_of_interest or super().is_leaf_module(m, module_qualified_name)


def _pairs(model: nn.Module) -> list[tuple[str, str]]:
    """Return the names of every layer and of the batch norm behind it that can be fused."""
    try:
        arguments = list(inspect.signature(model.forward).parameters.values())
        defaults = {one.name: one.default for one in arguments[1:] if one.default is not one.empty}
        graph = _Tracer().trace(model, defaults)
    except Exception as error:
        raise CannotFuseError(f"it cannot be traced ({first_line(error)})") from error
    modules = dict(model.named_modules())
    calls = Counter(str(node.target) for node in graph.nodes if node.op == "call_module")
    read = {str(node.target).rpartition(".")[0] for node in graph.nodes if node.op == "get_attr"}
    pairs, obstacles = [], []
    for node in graph.nodes:
        before = node.args[0] if node.args else None
        if not isinstance(before, fx.Node) or {node.op, before.op} != {"call_module"}:
            continue
        first, second = str(before.target), str(node.target)
        layer, norm = modules[first], modules[second]
        if type(layer) not in _LAYERS or type(norm) not in _NORMS:
            continue
        reasons = {
            f"{second} is not the only user of {first}": len(before.users) > 1,
            f"{first} or {second} is called more than once": max(calls[first], calls[second]) > 1,
            f"the parameters of {first} or {second} are read elsewhere": bool(read & {first, second}),
            f"{first} or {second} stays in training mode": layer.training or norm.training,
            f"{second} has no running statistics": norm.running_mean is None or norm.running_var is None,
            # PyTorch's function for linear layers wants both.
            f"{second} has no scale and shift": not norm.affine and isinstance(layer, nn.Linear),
        }
        obstacle = next((reason for reason, holds in reasons.items() if holds), None)
        if obstacle is None:
            pairs.append((first, second))
        else:
            obstacles.append(obstacle)
    if not pairs:
        raise CannotFuseError([*obstacles, "no batch norm directly follows a convolution or linear layer"][0])
    return pairs


def _merge(model: nn.Module, first: str, second: str) -> None:
    """Put a layer with the numbers of both in place of the first and nothing in place of the second."""
    layer, norm = model.get_submodule(first), model.get_submodule(second)
    fuse: Callable[..., nn.Module] = (
        fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval
    )
    try:
        fused = fuse(layer, norm)
    except Exception as error:
        raise CannotFuseError(f"{second} does not fit {first} ({first_line(error)})") from error
    swaps = {layer: fused, norm: nn.Identity().eval()}
    # One module may be known by several names.
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if module in swaps:
            parent, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(parent), attribute, swaps[module])


def _logits(model: nn.Module, sample: Tensor) -> Tensor:
    try:
        logits = model(sample.clone())  # it may work in place
    except Exception as error:
        raise CannotFuseError(f"it fails on the sample ({first_line(error)})") from error
    if not isinstance(logits, Tensor) or not logits.numel():
        raise CannotFuseError("it returns no tensor of logits for the sample")
    return logits


def _require_same(logits: Tensor, others: Tensor, what: str) -> None:
    if logits.shape != others.shape:
        raise CannotFuseError(f"{what} changes the shape of its logits")
    scale, gap = float(logits.abs().max()), float((logits - others).abs().max())
    if not gap <= tolerance(logits.dtype) * scale:  # NaN is not the same
        raise CannotFuseError(f"{what} changes its logits by {gap:.1e}, where the largest is {scale:.1e}")


def tolerance(dtype: torch.dtype) -> float:
    """Return how far logits may move, in parts of the largest, and still count as the same up to rounding.

    >>> tolerance(torch.float32), tolerance(torch.float64)
    (1e-05, 1e-12)
    """
    return 1e-12 if dtype == torch.float64 else 1e-5


def _generator_state(device: torch.device) -> Tensor:
    host = torch.get_rng_state()
    return torch.cat([host, torch.cuda.get_rng_state(device)]) if device.type == "cuda" else host
