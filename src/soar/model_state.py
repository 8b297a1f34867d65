"""Use a model without changing its state."""

from __future__ import annotations

import copy
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from soar.errors import UserError


@contextmanager
def probing(model: nn.Module) -> Iterator[None]:
    """Put a model in eval mode without parameter gradients for a block, then restore it exactly.

    Attacks need gradients of the pixels only. Eval mode keeps BatchNorm's running statistics and the
    independence of examples; frozen parameters save the memory that their gradients would need.

    Args:
        model: the model to probe; every module's mode and every parameter's flag is restored

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    >>> with probing(model):
    ...     model.training, model[0].weight.requires_grad
    (False, False)
    >>> model.training, model[0].weight.requires_grad
    (True, True)
    """
    modes = [(module, module.training) for module in model.modules()]
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        model.eval()
        for parameter, _ in flags:
            parameter.requires_grad_(False)
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Use a model without gradients, and without changes to its buffers or the global generator."""
    device, _ = placement(model)
    devices = [device] if device.type == "cuda" else []
    with probing(model), torch.no_grad(), torch.random.fork_rng(devices=devices):
        # A batch norm that ignores eval mode changes its statistics.
        kept = [
            (module, name, buffer, buffer.clone())
            for module in model.modules()
            for name, buffer in module.named_buffers(recurse=False)
        ]
        # With the generator put back, a second block would otherwise draw the same random numbers.
        torch.rand(1, device=device)
        try:
            yield
        finally:
            for module, name, buffer, numbers in kept:
                setattr(module, name, buffer.copy_(numbers))


def with_float64(model: nn.Module) -> nn.Module:
    """Return a model where float64 exists: itself, or a copy on the CPU if its device has none (Apple's MPS).

    >>> model = nn.Linear(2, 2)
    >>> with_float64(model) is model
    True
    """
    return copy.deepcopy(model).cpu() if placement(model)[0].type == "mps" else model


@contextmanager
def uncompiled(model: object = None, why: str = "") -> Iterator[None]:
    """Within this context, what was compiled by `torch.compile` runs as it was written.

    Compiled code has one derivative, and is compiled again for every other mode, precision and batch size.

    Args:
        model: the user is told of it if this one is compiled, or a module in it
        why: the reason to give
    """
    warn_if_compiled(model, why, stacklevel=5)
    # Nothing can be compiled before this module is imported, which takes seconds.
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with _AS_WRITTEN.held():
        yield


class _Stance:
    """What PyTorch does with compiled code, for all threads: the last of them to leave restores it.

    Each thread restoring what it had found would leave the choice of another one behind.
    """

    def __init__(self) -> None:
        self._lock, self._holders = threading.Lock(), 0
        self._change: Any = None

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._lock:
            if not self._holders:
                self._change = torch.compiler.set_stance("force_eager")
                self._change.__enter__()
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if not self._holders:
                    self._change.__exit__(None, None, None)


_AS_WRITTEN = _Stance()


def warn_if_compiled(model: object, why: str, *, stacklevel: int) -> None:
    """Warn, where a model is compiled, that it will run as it was written.

    Args:
        model: anything, as it came from the user
        why: the reason
        stacklevel: which caller the warning points to, as in `warnings.warn`
    """
    modules = model.modules() if isinstance(model, nn.Module) else ()
    if any(hasattr(one, "_orig_mod") or one._compiled_call_impl is not None for one in modules):
        warnings.warn(
            f"model: is compiled, but runs here as it was written, because {why}; its weights are the same,"
            " and elsewhere it stays compiled",
            stacklevel=stacklevel,
        )


def require_module(given: object) -> None:
    """Check that something is a model.

    Raises:
        UserError: if it is not a torch module
    """
    if not isinstance(given, nn.Module):
        raise UserError(f"model: got a {type(given).__name__}, expected a torch.nn.Module")


def placement(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Return the device and the precision of a model; one without parameters is on the CPU.

    >>> placement(nn.Linear(2, 2).double())
    (device(type='cpu'), torch.float64)
    """
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_floating_point():
            return tensor.device, tensor.dtype
    return torch.device("cpu"), torch.get_default_dtype()
