"""Borrow a model without leaving a trace on it, and ask it for logits without leaving one on the images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from soar.errors import UserError, first_line


@contextmanager
def probing(model: nn.Module) -> Iterator[None]:
    """Put a model in eval mode without parameter gradients, and give it back exactly as it was.

    Attacks ask for the slope at the pixels only. Eval mode keeps BatchNorm's running statistics and the
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
    """Probe a model without gradients, and without a trace on its buffers or on the global generator."""
    device, _ = placement(model)
    devices = [device] if device.type == "cuda" else []
    with probing(model), torch.no_grad(), torch.random.fork_rng(devices=devices):
        # A batch norm that does not follow eval mode changes its statistics.
        kept = [
            (module, name, buffer, buffer.clone())
            for module in model.modules()
            for name, buffer in module.named_buffers(recurse=False)
        ]
        # A caller who put the generator back would otherwise get the same random numbers again.
        torch.rand(1, device=device)
        try:
            yield
        finally:
            for module, name, buffer, numbers in kept:
                setattr(module, name, buffer.copy_(numbers))


def logits_of(model: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    """Return a model's logits for a batch; every pass through a model goes through here.

    The model is handed a copy, because one that works in place would otherwise overwrite the images or the
    points of an attack. The copy is part of the graph, so logits still differentiate to `x`. It costs one
    write of the batch, next to nothing beside a network's own activations.

    Args:
        model: any module that maps images in [0, 1] to logits
        x: images as the model takes them

    Raises:
        UserError: if the model fails on the images, or its output is not one row of logits for each

    >>> x = torch.tensor([[0.5, 1.0]])
    >>> logits_of(nn.ReLU(inplace=True), x.neg()), logits_of(lambda x: x.mul_(2), x), x
    (tensor([[0., 0.]]), tensor([[1., 2.]]), tensor([[0.5000, 1.0000]]))
    """
    try:
        output = model(x.clone())
    except (UserError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # anyone's module may fail in any way
        shape = " x ".join(map(str, x.shape[1:]))
        raise UserError(
            f"model: fails on {len(x)} images of shape {shape} ({first_line(error)});"
            " expected one that takes them"
        ) from error
    logits = check_logits(output, len(x))
    highest, classes = _highest_label.get(), logits.shape[1]
    if highest >= classes:
        raise UserError(f"labels: got {highest}, expected 0 to {classes - 1} for {classes} classes")
    return logits


_highest_label: ContextVar[int] = ContextVar("highest label", default=-1)


@contextmanager
def knowing(labels: Tensor) -> Iterator[None]:
    """Within this context, refuse models that have no logit for one of the labels, at their first pass.

    How many classes a model has shows only in its logits. On a GPU a label beyond them would end the process,
    and reading the labels waits for the GPU, so this is done once for many passes.

    Args:
        labels: true classes

    Raises:
        UserError: if a label is negative
    """
    lowest, highest = map(int, labels.aminmax()) if len(labels) else (0, -1)
    if lowest < 0:
        raise UserError(f"labels: got {lowest}, expected classes counted from 0")
    token = _highest_label.set(highest)
    try:
        yield
    finally:
        _highest_label.reset(token)


def check_logits(logits: object, count: int) -> Tensor:
    """Check that a model's output is one row of logits for each image; values are not looked at.

    Args:
        logits: what the model returned
        count: how many images it was shown

    Raises:
        UserError: if it is anything else
    """
    if not isinstance(logits, Tensor):
        raise UserError(
            f"model: got a {type(logits).__name__} as output, expected a tensor of logits (examples,"
            " classes); wrap the model in a module that returns only its logits"
        )
    if logits.layout != torch.strided or logits.is_meta:
        raise UserError(
            f"model: got outputs of layout {logits.layout} on {logits.device}, expected an ordinary tensor of"
            " logits with numbers in memory"
        )
    if not logits.dim():
        raise UserError("model: got a single number as output, expected logits of shape (examples, classes)")
    shape = tuple(logits.shape)
    if len(shape) != 2:
        raise UserError(f"model: got outputs of shape {shape}, expected logits of shape (examples, classes)")
    if len(logits) != count:
        raise UserError(f"model: got {len(logits)} rows of logits for {count} images, expected one for each")
    if shape[1] < 2:
        raise UserError(
            f"model: got logits of {shape[1]} class, expected at least 2;"
            " for a single score z of two classes return (0, z)"
        )
    if not logits.is_floating_point():
        raise UserError(f"model: got outputs of type {logits.dtype}, expected floating-point logits")
    return logits


def require_module(given: object) -> None:
    """Refuse what is not a model.

    Raises:
        UserError: if it is not a torch module
    """
    if not isinstance(given, nn.Module):
        raise UserError(f"model: got a {type(given).__name__}, expected a torch.nn.Module")


def placement(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Tell where a model lives and in which precision; a model without parameters is on the CPU.

    >>> placement(nn.Linear(2, 2).double())
    (device(type='cpu'), torch.float64)
    """
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_floating_point():
            return tensor.device, tensor.dtype
    return torch.device("cpu"), torch.get_default_dtype()
