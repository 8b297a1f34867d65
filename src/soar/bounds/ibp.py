"""Interval bound propagation: the range of a model's logits over all images that a threat allows."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from soar.bounds.interval import Interval, around, rounding
from soar.bounds.propagation import Known, Linear, Propagation
from soar.bounds.rules import RULES
from soar.prediction import logits_of
from soar.threat import Threat


class LogitBounds(NamedTuple):
    """A model's logits at the images, their intervals, and the linear layer that they come from, if any."""

    logits: Tensor
    interval: Interval
    last: Linear | None

    def margins(self, y: Tensor) -> Tensor:
        r"""Return the least that the label's logit is ahead of every other class.

        Where the logits come from a linear layer, that of their difference is bounded,
        \( (W_y - W_j) c + b_y - b_j - |W_y - W_j| r \), and not the ends of both (Gowal et al., 2018).

        Args:
            y: the labels

        Returns:
            One row per image, one column per class; the label's own column is infinite.
        """
        if self.last is None:
            found = self.interval.lower.gather(1, y[:, None]) - self.interval.upper
        else:
            inputs, weight, bias = self.last
            difference = weight[y][:, None] - weight
            found = torch.linalg.vecdot(difference, inputs.center[:, None])
            found = found - torch.linalg.vecdot(difference.abs(), inputs.radius[:, None])
            if bias is not None:
                found = found + (bias[y][:, None] - bias)
            # The model rounds both logits on its own, whatever cancels in their difference.
            size = F.linear(inputs.size, weight.abs(), None if bias is None else bias.abs())
            found = found - rounding(weight, weight.shape[1] + 4) * (size.gather(1, y[:, None]) + size)
        return found.scatter(1, y[:, None], torch.inf)


def propagate(model: nn.Module, x: Tensor, threat: Threat) -> LogitBounds:
    """Bound a model's logits over all images that a threat allows, layer by layer.

    In training mode BatchNorm takes the statistics of the images themselves. Gradients flow through the
    bounds, as training by them needs.

    Args:
        model: any module that maps images in [0, 1] to logits, made of functions that have a rule
        x: images in [0, 1]
        threat: what the adversary may do

    Raises:
        UserError: if the model uses something that cannot be bounded

    >>> layer = nn.Linear(2, 2, bias=False)
    >>> _ = layer.requires_grad_(False).weight.copy_(torch.eye(2))
    >>> from soar.threat import Linf
    >>> found = propagate(layer, torch.tensor([[0.5, 0.2]]), Linf("0.1"))
    >>> round(float(found.margins(torch.tensor([0]))[0, 1]), 4)
    0.1
    """
    return bounded(Propagation(RULES), model, Known(x, around(x, threat)))


def bounded(mode: Propagation, model: nn.Module, images: Known) -> LogitBounds:
    """Call a model while its tensors are followed.

    Args:
        mode: what follows them
        model: the model
        images: the images, and what they may become

    Raises:
        UserError: if the model uses something that cannot be bounded
    """
    with mode.naming(model), mode:
        output = logits_of(model, mode.follow(images))
    found = mode.known(output)
    if found is None or found.value.dim() != 2:
        raise mode.refusal("outputs that do not come from the image by functions that can be bounded")
    return LogitBounds(found.value, found.interval, found.linear)


def worst_logits(bounds: LogitBounds, y: Tensor) -> Tensor:
    """Return logits that make the label as unlikely as the bounds allow: 0 for it, minus the margins.

    Args:
        bounds: of the logits
        y: the labels
    """
    margins = bounds.margins(y)
    return torch.where(F.one_hot(y, margins.shape[1]).bool(), 0, -margins)
