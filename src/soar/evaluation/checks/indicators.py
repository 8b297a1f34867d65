"""Indicators of attack failure (Pintor et al., 2022) that explain a finding; none of them is one.

A search that is not finished, and a loss that jumps, are common on honest networks. What they cost an attack
is measured by other checks: more steps by "budgets", tasks with a known solution by "climb".
"""

from __future__ import annotations

import torch
from torch import Tensor

from soar import losses, randomness
from soar.attacks.attack import Examples
from soar.attacks.oracle import query_model
from soar.evaluation.checks import PGD_CE, SharedAttacks
from soar.evaluation.target import Target
from soar.model_state import probing, untouched
from soar.prediction import logits_of

# Shares and means of this many images are known well enough to explain something.
MOST_EXAMPLES = 64
LAST_STEPS, RISE = 10, 0.05
NEARBY, POINTS = 50, 4


def unfinished(shared: SharedAttacks) -> float | None:
    """Return the share of surviving images on which the loss still rose when the attack ended.

    It counts where the highest loss of the last 10 steps is above the highest before them by more than 5% of
    the range of the loss on the whole path.

    Args:
        shared: the attacks on the target

    Returns:
        A share of at most 64 of the images that survive PGD-20; None where there are none.
    """
    rows = shared.robust(PGD_CE).nonzero()[:MOST_EXAMPLES, 0]
    if not len(rows):
        return None
    found = [still_rises(path) for path in _losses_on_paths(shared.target.subset(rows))]
    return float(torch.cat(found).cpu().double().mean())


def still_rises(path: Tensor) -> Tensor:
    """Return for each image whether its loss still rose in the last steps.

    Args:
        path: the loss before the first step and after every one, (steps + 1, images)

    >>> slow, early = torch.arange(21.0), torch.arange(21.0).clamp(max=5)
    >>> still_rises(torch.stack([slow, early, 0 * slow], dim=1))
    tensor([ True, False, False])
    """
    before, last = path[:-LAST_STEPS].amax(dim=0), path[-LAST_STEPS:].amax(dim=0)
    return last - before > RISE * (path.amax(dim=0) - path.amin(dim=0))


def _losses_on_paths(target: Target) -> list[Tensor]:
    """Return the loss on PGD's path for the images of every batch, both ends included."""
    paths: list[Tensor] = []
    with probing(target.model):
        for x, y, index in target.batches():
            state = PGD_CE.start(Examples.of(x, y, index=index, seed=target.seed), target.threat)
            path = []
            for step in range(PGD_CE.steps + 1):
                is_last = step == PGD_CE.steps
                _, answer = query_model(target.model, PGD_CE, state, target.threat, gradient=not is_last)
                path.append(answer.loss)
                state = PGD_CE.update(state, answer, target.threat)
            paths.append(torch.stack(path))
    return paths


def roughness(target: Target) -> float | None:
    r"""Return how much of the loss's change in the ball is there at a fiftieth of the radius already.

    \sum |l(x + \delta/50) - l(x)| / \sum |l(x + \delta) - l(x)|, l the margin, \delta random in the ball

    It is 1/50 for a smooth loss, and near 1 where a gradient says nothing about the neighborhood.

    Args:
        target: the model, left as it was, its examples, of which the first 64 are used, and the threat

    Returns:
        None where the loss does not change.

    >>> from soar.threat import Linf
    >>> x, y = torch.full((1, 1, 2, 2), 0.5), torch.tensor([0])
    >>> linear = Target(model=torch.nn.Flatten(), data=(x, y), threat=Linf("0.25"))
    >>> round(roughness(linear), 4)
    0.02
    """
    near: list[Tensor] = []
    far: list[Tensor] = []
    with untouched(target.model):
        for x, y, index in target.subset(slice(MOST_EXAMPLES)).batches():
            at_image = losses.margin(logits_of(target.model, x), y)
            for i in range(POINTS):
                point = target.threat.random_start(x, randomness.key(target.seed, index, "roughness", i))
                for found, share in ((near, 1 / NEARBY), (far, 1.0)):
                    loss = losses.margin(logits_of(target.model, x + share * (point - x)), y)
                    found.append((loss - at_image).abs().cpu().double())
    change = float(torch.cat(far).sum())
    return float(torch.cat(near).sum()) / change if change > 0 else None
