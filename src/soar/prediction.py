"""Run a model on images and check that its output is logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from soar.errors import UserError, first_line
from soar.inputs import check_batch_size, check_tensor
from soar.model_state import placement, require_module

_highest_label: ContextVar[int] = ContextVar("highest label", default=-1)
_stand_in: ContextVar[StandIn | None] = ContextVar("stand-in", default=None)


class StandIn(NamedTuple):
    """What computes some passes of a model in its place; see `attacking_by`."""

    model: nn.Module
    call: Callable[[Tensor], Tensor]
    size: int


def predict(model: nn.Module, images: Tensor, batch_size: int = 128) -> Tensor:
    """Return the logits of images, batch by batch, without gradients and in the model's current mode.

    Raises:
        UserError: if the model fails on the images, or its output is not a batch of logits
    """
    require_module(model)
    check_batch_size(batch_size)
    device, dtype = placement(model)
    images = check_tensor(images, "images")
    with torch.no_grad():
        parts = [logits_of(model, as_input(part, device, dtype)) for part in images.split(batch_size)]
    return torch.cat(parts) if parts else torch.empty(0, 1, device=device, dtype=dtype)


def as_input(images: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return images on the model's device, in its precision, in [0, 1].

    >>> as_input(torch.tensor([[255]], dtype=torch.uint8), torch.device("cpu"), torch.float32)
    tensor([[1.]])
    """
    if images.dtype == torch.uint8:
        return images.to(device).to(dtype).div_(255)
    return images.detach().to(device, dtype)


def logits_of(model: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    """Return a model's logits for a batch; every forward pass goes through here.

    The model gets a copy, because one that works in place would otherwise overwrite the images or the points
    of an attack. The copy is part of the graph, so gradients still flow to `x`. It costs one write of the
    batch, little beside a network's own activations.

    Args:
        model: any module that maps images in [0, 1] to logits, see `find_logits`
        x: images on its device, in its precision

    Raises:
        UserError: if the model fails on the images, or its output is not one row of logits for each

    >>> x = torch.tensor([[0.5, 1.0]])
    >>> logits_of(nn.ReLU(inplace=True), x.neg()), logits_of(lambda x: x.mul_(2), x), x
    (tensor([[0., 0.]]), tensor([[1., 2.]]), tensor([[0.5000, 1.0000]]))
    """
    try:
        output = _computes(model, x)(x.clone())
    except (UserError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a user's module may fail in any way
        shape = " x ".join(map(str, x.shape[1:]))
        raise UserError(
            f"model: fails on {len(x)} images of shape {shape} ({first_line(error)});"
            " expected one that takes them"
        ) from error
    logits = _check_logits(find_logits(output), len(x))
    highest, classes = _highest_label.get(), logits.shape[1]
    if highest >= classes:
        raise UserError(f"labels: got {highest}, expected 0 to {classes - 1} for {classes} classes")
    return logits


def find_logits(output: object) -> Tensor:
    """Return the logits in a model's output: the output itself, or its `logits`, or the first of a tuple.

    Args:
        output: a tensor, a tuple, or a dict or object with `logits`, such as a `ModelOutput` of Hugging Face

    Raises:
        UserError: if it has no tensor in that place

    >>> find_logits({"loss": None, "logits": torch.ones(1, 2)}), find_logits((torch.ones(1, 2), "more"))
    (tensor([[1., 1.]]), tensor([[1., 1.]]))
    """
    if isinstance(output, Tensor):
        return output
    found = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if found is None and isinstance(output, tuple):
        found = next(iter(output), None)
    if isinstance(found, Tensor):
        return found
    got = f"a {type(output).__name__}"
    if isinstance(output, Mapping):
        got += f" of {', '.join(map(str, output)) or 'nothing'}"
    elif isinstance(output, tuple):
        got += f" of {', '.join(type(one).__name__ for one in output) or 'nothing'}"
    raise UserError(
        f"model: got {got} as output, expected a tensor of logits (examples, classes), one named 'logits' or"
        " the first of a tuple; wrap the model in a module that returns only its logits"
    )


class LogitsOnly(nn.Module):
    """A model that returns the tensor of its logits and nothing else.

    Args:
        model: any module whose outputs hold logits, see `find_logits`
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        return find_logits(self.model(x))


@contextmanager
def attacking_by(stand_in: StandIn | None) -> Iterator[None]:
    """Within this context, let something faster compute the passes of attacks on a model.

    Those are the passes that are differentiated by the images, but not by the weights. All others are left to
    the model itself: they need other derivatives, or none.

    Args:
        stand_in: the model, what computes the same logits, and the number of images that it is made for
    """
    token = _stand_in.set(stand_in)
    try:
        yield
    finally:
        _stand_in.reset(token)


def _computes(model: Callable[[Tensor], Any], x: Tensor) -> Callable[[Tensor], Any]:
    """Return what computes a pass of a model: the model, or what `attacking_by` has put in its place."""
    other = _stand_in.get()
    if other is None or model is not other.model or len(x) != other.size:
        return model
    is_attack = x.requires_grad and torch.is_grad_enabled()
    is_frozen = not any(parameter.requires_grad for parameter in other.model.parameters())
    return other.call if is_attack and is_frozen else model


@contextmanager
def knowing(labels: Tensor) -> Iterator[None]:
    """Within this context, refuse a model without a logit for every label at its first forward pass.

    The number of classes is known only from the logits. On a GPU a label beyond them would end the process,
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


def _check_logits(logits: Tensor, count: int) -> Tensor:
    """Check that there is one row of logits for each image, whatever their values.

    Args:
        logits: of the model's output
        count: the number of images

    Raises:
        UserError: if it is anything else
    """
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


def checked_logits(logits: Tensor, count: int) -> Tensor:
    """Check that a model's output is one row of finite logits for each image, and return it.

    Args:
        logits: the model's output
        count: the number of images

    Raises:
        UserError: if it is anything else
    """
    found = _check_logits(logits, count).detach()
    broken = ~found.isfinite().all(dim=1)
    if bool(broken.any()):
        raise UserError(
            f"model: got logits that are NaN or infinite for {int(broken.sum())} of {count} images, first for"
            f" image {int(broken.nonzero()[0])}; expected finite numbers"
        )
    return found
