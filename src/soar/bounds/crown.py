"""CROWN: a linear lower bound of each margin over all images that a threat allows, by backward passes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from soar.bounds.ibp import LogitBounds, bounded
from soar.bounds.interval import Interval, around, rounding
from soar.bounds.propagation import Known, Propagation
from soar.bounds.rules import RULES
from soar.threat import Linf, Threat

# Sums of coefficients are added in blocks, so their rounding is far below that of a sum one by one.
_TERMS = 62
_RATE = 0.25


class _Expansion:
    """A model relaxed around a batch of images, with bounds of whatever it computed.

    Args:
        model: the model, in eval mode, its parameters without gradients
        x: the images
        threat: what the adversary may do
        refine: tighten the interval of every nonlinear layer by CROWN, too
        slopes: lower slopes of the ReLUs
    """

    def __init__(
        self, model: nn.Module, x: Tensor, threat: Threat, *, refine: bool, slopes: Sequence[Tensor] = ()
    ) -> None:
        self.threat, self.region = threat, around(x, threat)
        self.x = x.detach().clone().requires_grad_()
        self.anchor = x.new_zeros(len(x), 2).requires_grad_()
        self.mode = Propagation(RULES, anchor=self.anchor, slopes=slopes)
        if refine:
            self.mode.refine = self._tightened
        with torch.enable_grad():
            self.bounds: LogitBounds = bounded(self.mode, model, Known(self.x, self.region))

    def lower(self, outputs: Tensor, coefficients: Tensor, *, create_graph: bool = False) -> Tensor:
        r"""Return lower bounds of a weighted sum of a tensor's entries, by one backward pass.

        \( v \cdot f(x) + \text{offset} + \min_{x'} A \cdot (x' - x) \), A the gradient, less rounding

        Args:
            outputs: a tensor that was computed from the images
            coefficients: one weight for each of its entries
            create_graph: whether slopes will be optimized

        Returns:
            One number per image.
        """
        slope, offset = torch.autograd.grad(
            outputs,
            (self.x, self.anchor),
            coefficients,
            retain_graph=True,
            create_graph=create_graph,
            materialize_grads=True,
        )
        x, low, high, slope = (one.flatten(1) for one in (self.x.detach(), *self.region[:2], slope))
        least = torch.minimum(slope * (low - x), slope * (high - x)).sum(dim=1)
        if not isinstance(self.threat, Linf):
            reach = self.threat.radius * torch.linalg.vector_norm(slope, dim=1)
            least = torch.maximum(least, -reach * (1 + rounding(x, 2)))
        terms = (coefficients * outputs.detach()).flatten(1)
        size = terms.abs().sum(dim=1) + offset[:, 1] + (slope.abs() * high).sum(dim=1)
        return terms.sum(dim=1) + offset[:, 0] + least - rounding(x, _TERMS) * size

    def _tightened(self, known: Known) -> Interval:
        """Bound the entries whose sign is open by CROWN, where that is tighter."""
        flat = Interval(*(one.flatten(1).clone() for one in known.interval[:2]))
        value = known.value.flatten(1)
        is_open = ((flat.lower < 0) & (flat.upper > 0)).any(dim=0).nonzero()[:, 0]
        for entry in is_open.tolist():
            unit = torch.zeros_like(value)
            unit[:, entry] = 1
            flat.lower[:, entry] = torch.maximum(flat.lower[:, entry], self.lower(value, unit))
            flat.upper[:, entry] = torch.minimum(flat.upper[:, entry], -self.lower(value, -unit))
        return Interval(*(one.reshape(known.value.shape) for one in flat[:2]))


def crown_margins(
    model: nn.Module, x: Tensor, y: Tensor, threat: Threat, *, refine: bool = False, steps: int = 0
) -> Tensor:
    """Return lower bounds of how far the label's logit is ahead of every other class.

    Each nonlinear layer is replaced by planes over its interval, which interval propagation finds, and one
    backward pass per class leads from the logits to the image. The better of this bound and that of interval
    propagation is returned.

    Args:
        model: the model, in eval mode, its parameters without gradients
        x: images in [0, 1]
        y: the labels
        threat: what the adversary may do
        refine: find the intervals of nonlinear layers by CROWN, too: tighter, and a backward pass per neuron
        steps: how many gradient steps improve the slopes below ReLUs (alpha-CROWN)

    Returns:
        One row per image, one column per class; the label's own column is infinite.

    Raises:
        UserError: if the model uses something that cannot be bounded
    """
    expansion = _Expansion(model, x, threat, refine=refine)
    best = torch.maximum(expansion.bounds.margins(y).detach(), _margins(expansion, y).detach())
    if not steps or not expansion.mode.relus:
        return best
    slopes = [
        (one.upper > -one.lower).to(x.dtype).clamp(0.05, 0.95).requires_grad_()
        for one in expansion.mode.relus
    ]
    optimizer = torch.optim.Adam(slopes, lr=_RATE)
    for _ in range(steps):
        found = _margins(_Expansion(model, x, threat, refine=refine, slopes=slopes), y, create_graph=True)
        best = torch.maximum(best, found.detach())
        optimizer.zero_grad()
        (-found.amin(dim=1).sum()).backward(inputs=slopes)
        optimizer.step()
        with torch.no_grad():
            for slope in slopes:
                slope.clamp_(0, 1)
    return best


def _margins(expansion: _Expansion, y: Tensor, *, create_graph: bool = False) -> Tensor:
    logits = expansion.bounds.logits
    label = F.one_hot(y, logits.shape[1])
    found = [
        expansion.lower(
            logits,
            (label - F.one_hot(y.new_full(y.shape, other), logits.shape[1])).to(logits),
            create_graph=create_graph,
        )
        for other in range(logits.shape[1])
    ]
    return torch.stack(found, dim=1).scatter(1, y[:, None], torch.inf)
