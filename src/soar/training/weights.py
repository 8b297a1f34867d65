"""What training does with weights besides updating them: group, average, perturb, lay out in memory."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

# Fewer channels than a vector register holds make the kernel write past its buffer.
_LEAST_CHANNELS = 8


def decay_groups(parameters: Sequence[nn.Parameter], factor: float, *, norms: bool) -> list[dict[str, Any]]:
    """Return the groups of parameters that have the same weight decay, for an optimizer.

    Args:
        parameters: in any order, which is kept within a group
        factor: the weight decay
        norms: whether norms and biases, parameters of fewer than two dimensions, have it, too

    >>> layer = nn.Linear(3, 2)
    >>> groups = decay_groups([*layer.parameters()], 0.1, norms=False)
    >>> [(len(group["params"]), group["weight_decay"]) for group in groups]
    [(1, 0.1), (1, 0.0)]
    """
    if norms:
        return [{"params": [*parameters], "weight_decay": factor}]
    groups = [
        {"params": [w for w in parameters if w.dim() > 1], "weight_decay": factor},
        {"params": [w for w in parameters if w.dim() <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


class Average:
    """An exponential moving average of a model.

    After update number t the average moves by 1 - d toward the model, with d = min(decay, t / (t + 9)):
    small at the start, so that the initial weights are soon forgotten. Statistics of BatchNorm are averaged
    as well, integers are copied.

    Args:
        model: the model to average
        decay: the final decay, such as 0.995

    >>> average = Average(nn.Linear(1, 1), decay=0.5)
    >>> [average.decay_at(step) for step in (1, 3, 9, 1000)]
    [0.1, 0.25, 0.5, 0.5]
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        averages, current = self.model.state_dict(), model.state_dict()
        self._pairs: list[tuple[Tensor, Tensor]] = [(averages[name], current[name]) for name in averages]

    def decay_at(self, step: int) -> float:
        """Return the decay of update number `step`, from 1."""
        return min(self.decay, step / (step + 9))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the average after update number `step`, from 1."""
        weight = 1 - self.decay_at(step)
        for average, value in self._pairs:
            if average.is_floating_point():
                average.lerp_(value, weight)
            else:
                average.copy_(value)


@contextmanager
def perturbed_weights(parameters: Sequence[nn.Parameter], size: float) -> Iterator[None]:
    """Perturb weights adversarially (Wu et al., 2020) inside the context, and restore them exactly after it.

    w_l + size ||w_l|| g_l / ||g_l||  for every layer l

    Only weights of two or more dimensions move: biases and the scales of norms do not make a loss sharp.
    Gradients are set to None, so that those of the perturbed weights can take their place.

    Args:
        parameters: weights with gradients of the loss in `grad`
        size: length of the perturbation of each layer, relative to its norm

    >>> w = nn.Parameter(torch.tensor([[3.0, 4.0]]))
    >>> w.grad = torch.tensor([[0.0, 2.0]])
    >>> with perturbed_weights([w], 0.1):
    ...     print(w.data, w.grad)
    tensor([[3.0000, 4.5000]]) None
    >>> w.data
    tensor([[3., 4.]])
    """
    moves = {w: _perturbation(w, w.grad, size) for w in parameters if w.grad is not None and w.dim() > 1}
    before = {w: w.detach().clone() for w in moves}
    for w in parameters:
        w.grad = None
    try:
        with torch.no_grad():
            for w, move in moves.items():
                w.add_(move)
        yield
    finally:
        with torch.no_grad():
            for w, old in before.items():
                w.copy_(old)


def memory_layout(model: nn.Module, device: torch.device, *, channels_last: bool) -> torch.memory_format:
    """Return channels_last where it is wanted and safe, and the contiguous format otherwise.

    PyTorch's CPU kernel for the weight gradient of a 1x1 convolution with a stride writes out of bounds when
    images are channels_last and have fewer than 8 channels (seen with 2.13): processes crash or, worse, do
    not.

    Args:
        model: the model to train
        device: the device it is trained on
        channels_last: whether channels_last is wanted

    >>> narrow = nn.Conv2d(4, 8, 1, stride=2)
    >>> memory_layout(narrow, torch.device("cpu"), channels_last=True)
    torch.contiguous_format
    """
    if channels_last and not (device.type == "cpu" and any(map(_is_unsafe, model.modules()))):
        return torch.channels_last
    return torch.contiguous_format


def _perturbation(weight: Tensor, gradient: Tensor, size: float) -> Tensor:
    # Dividing by the largest entry first keeps the squares of tiny gradients from vanishing.
    tiny = torch.finfo(gradient.dtype).tiny
    scaled = gradient / gradient.abs().max().clamp(min=tiny)
    length = torch.linalg.vector_norm(scaled).clamp(min=tiny)
    move: Tensor = size * torch.linalg.vector_norm(weight.detach()) * scaled / length
    return move


def _is_unsafe(module: nn.Module) -> bool:
    if not isinstance(module, nn.Conv2d):
        return False
    is_pointwise = module.kernel_size == (1, 1) and max(module.stride) > 1
    return is_pointwise and module.in_channels // module.groups < _LEAST_CHANNELS
