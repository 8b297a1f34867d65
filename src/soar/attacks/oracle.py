"""Query the model for an attack: logits, loss and gradient at its points, and whether the model is fooled."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from soar.attacks.attack import Answer, Attack, Examples, State
from soar.errors import UserError, shown
from soar.prediction import logits_of
from soar.threat import Threat

S = TypeVar("S", bound=State)


def ask(
    model: nn.Module, attack: Attack[S], state: S, threat: Threat, *, gradient: bool
) -> tuple[Tensor, Answer]:
    """Evaluate the points that an attack wants to know about.

    Args:
        model: the model under attack, in the mode it should be attacked in
        attack: the recipe
        state: where the examples stand
        threat: the set that points are brought back to before they are evaluated
        gradient: whether to compute the gradient of the attack's score

    Returns:
        The points that were really evaluated, and the answer.
    """
    points = attack.query(state).detach()
    x = state.examples.x
    points = threat.project(points, x) if attack.stays_inside else points.clamp(0, 1)
    with torch.set_grad_enabled(gradient):
        points.requires_grad_(gradient)
        logits = precise(logits_of(model, points))
        loss = _checked_loss(attack.score(logits, state), logits)
        at_points = _gradient(loss, points) if gradient else None
    if at_points is not None:
        # NaN would stop the search for good; zero only costs it this step.
        at_points = at_points.nan_to_num(nan=0.0)
    return points.detach(), Answer(logits.detach(), loss.detach(), at_points)


def precise(logits: Tensor) -> Tensor:
    """Return logits in the precision in which attacks compare losses: float32, or float64 if they have it.

    A loss computed in eight significant bits hides most small steps. The gradient at the points is in the
    precision of the points whatever that of the logits.

    >>> precise(torch.zeros(1, 2, dtype=torch.bfloat16)).dtype, precise(torch.zeros(1, 2).double()).dtype
    (torch.float32, torch.float64)
    """
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _checked_loss(loss: object, logits: Tensor) -> Tensor:
    """Check that a loss, which may be the user's own function, is one number for each example."""
    if isinstance(loss, Tensor) and loss.shape == logits.shape[:1] and loss.is_floating_point():
        return loss
    got = f"shape {tuple(loss.shape)} and {loss.dtype}" if isinstance(loss, Tensor) else shown(loss)
    raise UserError(
        f"attack.loss: got {got}, expected one floating-point number for each of {len(logits)} images"
    )


def _gradient(loss: Tensor, points: Tensor) -> Tensor:
    """Differentiate by the points; a model that cuts the graph, say by a detour through numpy, has none."""
    if not loss.requires_grad:
        return torch.zeros_like(points)
    (gradient,) = torch.autograd.grad(loss.sum(), points, allow_unused=True, materialize_grads=True)
    return gradient


def is_fooled(examples: Examples, points: Tensor, logits: Tensor, threat: Threat) -> Tensor:
    """Return where the model is wrong, or says the goal, at a point that the adversary may choose."""
    said = logits.argmax(dim=1)
    reached = torch.where(examples.goal >= 0, said == examples.goal, said != examples.labels)
    if bool(reached.any()):
        reached[reached.clone()] = threat.contains(points[reached], examples.x[reached])
    return reached
