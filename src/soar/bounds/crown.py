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
from soar.errors import UserError
from soar.model_state import probing
from soar.threat import Linf, Threat

_RATE = 0.25


class _Expansion:
    """A model relaxed around a batch of images, with bounds of whatever it computed.

    Args:
        model: the model, in eval mode, its parameters without gradients
        x: the images
        threat: what the adversary may do
        refine: tighten the interval of every nonlinear layer by CROWN, too
        alphas: gradients of the lines below the ReLUs
    """

    def __init__(
        self, model: nn.Module, x: Tensor, threat: Threat, *, refine: bool, alphas: Sequence[Tensor] = ()
    ) -> None:
        self.threat, self.region = threat, around(x, threat)
        self.x = x.detach().clone().requires_grad_()
        self.anchor = x.new_zeros(len(x), dtype=torch.float64).requires_grad_()
        tighten = self._tightened if refine else None
        self.mode = Propagation(RULES, anchor=self.anchor, alphas=alphas, refine=tighten)
        with torch.enable_grad():
            self.bounds: LogitBounds = bounded(self.mode, model, Known(self.x, self.region))

    def lower(self, outputs: Tensor, coefficients: Tensor, *, create_graph: bool = False) -> Tensor:
        r"""Return lower bounds of a weighted sum of a tensor's entries, by one backward pass.

        \( v \cdot f(x) + \text{offset} + \min_{x'} A \cdot (x' - x) \), A the gradient

        Args:
            outputs: a tensor that was computed from the images
            coefficients: one weight for each of its entries
            create_graph: whether alphas will be optimized

        Returns:
            One number per image, rounded down.
        """
        gradients = torch.autograd.grad(
            outputs,
            (self.x, self.anchor),
            coefficients,
            retain_graph=True,
            create_graph=create_graph,
            materialize_grads=True,
        )
        gamma = rounding(self.x, 6)
        x, low, high, slope = (
            one.double().flatten(1) for one in (self.x.detach(), *self.region[:2], gradients[0])
        )
        least = torch.minimum(slope * (low - x), slope * (high - x)).sum(dim=1)
        if not isinstance(self.threat, Linf):
            reach = self.threat.radius * (1 + gamma) + gamma
            least = torch.maximum(least, -reach * torch.linalg.vector_norm(slope, dim=1))
        nominal = (coefficients.double() * outputs.detach().double()).flatten(1).sum(dim=1)
        found = nominal + gradients[1] + least - gamma * (slope.abs() * (high - low)).sum(dim=1)
        rounded_down = found - 2 * rounding(self.x, 0) * (found.abs() + nominal.abs())
        return rounded_down.to(self.x.dtype)

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
        model: the model; it is bounded in eval mode
        x: images in [0, 1]
        y: the labels
        threat: what the adversary may do
        refine: find the intervals of nonlinear layers by CROWN, too: tighter, and a backward pass per neuron
        steps: how many gradient steps improve the lines below ReLUs (alpha-CROWN)

    Returns:
        One row per image, one column per class; the label's own column is infinite.

    Raises:
        UserError: if the model uses something that cannot be bounded
    """
    if x.device.type == "mps":
        raise UserError("images: got some on mps, which has no float64; move them and the model to the CPU")
    with probing(model):
        best, relus = _bounded_by(_Expansion(model, x, threat, refine=False), y)
        if refine:
            # Tighter intervals may choose other lines, and then a looser bound.
            tighter, relus = _bounded_by(_Expansion(model, x, threat, refine=True), y)
            best = torch.maximum(best, tighter)
        if not steps or not relus:
            return best
        alphas = [(one.upper > -one.lower).to(x.dtype).clamp(0.05, 0.95).requires_grad_() for one in relus]
        optimizer = torch.optim.Adam(alphas, lr=_RATE)
        for _ in range(steps):
            expansion = _Expansion(model, x, threat, refine=refine, alphas=alphas)
            found = _margins(expansion, y, create_graph=True)
            best = torch.maximum(best, found.detach())
            optimizer.zero_grad()
            (-found.amin(dim=1).sum()).backward(inputs=alphas)
            optimizer.step()
            with torch.no_grad():
                for alpha in alphas:
                    alpha.clamp_(0, 1)
    return best


def _bounded_by(expansion: _Expansion, y: Tensor) -> tuple[Tensor, list[Interval]]:
    """Return the better of both bounds of the margins, and the intervals of the ReLUs."""
    by_intervals = expansion.bounds.margins(y)
    return torch.maximum(by_intervals, _margins(expansion, y)).detach(), expansion.mode.relus


def _margins(expansion: _Expansion, y: Tensor, *, create_graph: bool = False) -> Tensor:
    """Return the bounds of the margins by one backward pass for every class but the label's own."""
    logits = expansion.bounds.logits
    classes = logits.shape[1]
    margins = torch.full_like(logits, torch.inf, requires_grad=False)
    for step in range(1, classes):
        other = (y + step) % classes
        difference = (F.one_hot(y, classes) - F.one_hot(other, classes)).to(logits)
        found = expansion.lower(logits, difference, create_graph=create_graph)
        margins = margins.scatter(1, other[:, None], found[:, None])
    return margins
