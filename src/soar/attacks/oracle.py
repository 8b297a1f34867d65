"""Query the model for an attack: logits, loss and gradient at its points, one query or a whole search."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from itertools import count

import torch
from torch import Tensor, nn

from soar import losses
from soar.attacks.attack import Answer, Attack, Examples, S, fitted
from soar.attacks.recall import recalled
from soar.errors import UserError, shown
from soar.model_state import probing
from soar.prediction import logits_of
from soar.threat import Threat


class PerExample(nn.Module):
    """A model that is another one for every example, such as one network with a head for each."""

    @abstractmethod
    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return logits.

        Args:
            x: points, perhaps several of one example
            rows: the example that each belongs to, by its position among the images that the engine was given
        """


def logits_at(model: nn.Module, points: Tensor, examples: Examples) -> Tensor:
    """Return a model's logits at points of some examples, in the precision in which losses are compared."""
    asked = partial(model, rows=examples.row) if isinstance(model, PerExample) else model
    return precise(logits_of(asked, points))


def query_model(
    model: nn.Module, attack: Attack[S], state: S, threat: Threat, *, gradient: bool
) -> tuple[Tensor, Answer]:
    """Evaluate the points that an attack queries.

    Args:
        model: the model under attack, in the mode it should be attacked in
        attack: the recipe
        state: of the examples
        threat: the set that points are brought back to before they are evaluated
        gradient: whether to compute the gradient of the attack's score

    Returns:
        The points that were really evaluated, and the answer.
    """
    points = attack.query(state).detach()
    if not getattr(attack, "projects", False):
        # Most attacks project their points in `update`; once is enough.
        x = state.examples.x
        points = threat.project(points, x) if attack.stays_inside else points.clamp(0, 1)
    with torch.set_grad_enabled(gradient):
        points.requires_grad_(gradient)
        logits = logits_at(model, points, state.examples)
        loss = _checked_loss(attack.score(logits, state), logits)
        at_points = _gradient(loss, points) if gradient else None
    return points.detach(), Answer(logits.detach(), loss.detach(), at_points)


def perturb(
    model: nn.Module,
    attack: Attack[S],
    threat: Threat,
    x: Tensor,
    labels: Tensor,
    *,
    index: Tensor,
    seed: int,
    step: int,
) -> Tensor:
    """Return the points at which an attack ends when no example leaves early, for use inside training.

    The updates are those of evaluation. Training keeps every example to the end, because it wants the
    hardest point and not the first that fools the model, and it does not evaluate the last point here,
    because the loss is about to do so. PGD with k steps costs k predictions and k gradients.

    Args:
        model: the model; probed in eval mode, without parameter gradients, and left as it was
        attack: the recipe
        threat: what the adversary may do
        x: images in [0, 1]
        labels: true classes
        index: identity of each example
        seed: seed of the run
        step: the training step, so that every step draws new random numbers

    Returns:
        Points inside the threat set, without a graph.
    """
    return recalled(lambda: search(model, attack, threat, x, labels, index=index, seed=seed, step=step)[0])


def search(
    model: nn.Module,
    attack: Attack[S],
    threat: Threat,
    x: Tensor,
    labels: Tensor,
    *,
    index: Tensor,
    seed: int,
    step: int,
) -> tuple[Tensor, Tensor]:
    """Run the search of `perturb`, and return its last points and the gradient that led to them.

    The gradient is zero for an attack that asked for none. The arguments are those of `perturb`.
    """
    gradient, attack = torch.zeros_like(x), fitted(attack, threat)
    with probing(model):
        state = attack.start(Examples.of(x, labels, index=index, entry=step, seed=seed), threat)
        # Asking whether a gradient is wanted would wait for a GPU at every step.
        known: int | None = getattr(attack, "gradients", None)
        asked = count()
        while bool(attack.wants_gradient(state).any()) if known is None else next(asked) < known:
            _, answer = query_model(model, attack, state, threat, gradient=True)
            state = attack.update(state, answer, threat)
            gradient = gradient if answer.gradient is None else answer.gradient
    return threat.project(attack.query(state), x), gradient


def precise(logits: Tensor) -> Tensor:
    """Return logits in the precision in which attacks compare losses: float32, or float64 if they have it.

    A loss computed in eight significant bits hides most small steps. The gradient at the points is in the
    precision of the points, not of the logits.

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
    # NaN would stop the search for good; zero only costs it this step.
    return gradient.nan_to_num(nan=0.0)


def reaches_goal(examples: Examples, logits: Tensor) -> Tensor:
    """Return where the prediction is wrong, or is the goal where there is one."""
    predicted = logits.argmax(dim=1)
    return torch.where(examples.goal >= 0, predicted == examples.goal, predicted != examples.labels)


def margin(examples: Examples, logits: Tensor) -> Tensor:
    """Return the margin of being fooled: above zero exactly where the search has reached its end.

    It is max_{i != y} z_i - z_y, and z_t - max_{i != t} z_i for an example with the goal t.
    """
    is_targeted = examples.goal >= 0
    distance = losses.margin(logits, torch.where(is_targeted, examples.goal, examples.labels))
    return torch.where(is_targeted, -distance, distance)
