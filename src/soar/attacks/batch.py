"""An attack on one batch from start to end, for use inside training."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from soar.attacks.attack import Attack, Examples, State
from soar.attacks.oracle import ask
from soar.attacks.recall import recalled
from soar.model_state import probing
from soar.threat import Threat

S = TypeVar("S", bound=State)


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
    """Return the points at which an attack ends when nobody leaves early.

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
    examples = Examples(
        x=x,
        labels=labels,
        goal=torch.full_like(labels, -1),
        row=torch.arange(len(labels), device=x.device),
        index=index,
        entry=torch.full_like(labels, step),
        logits=None,
        seed=seed,
    )

    def search() -> Tensor:
        with probing(model):
            state = attack.start(examples, threat)
            while bool(attack.wants_gradient(state).any()):
                _, answer = ask(model, attack, state, threat, gradient=True)
                state = attack.update(state, answer, threat)
        return threat.project(attack.query(state), x)

    return recalled(search)
