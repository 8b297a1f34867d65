"""The value of SOAR's loss with several random directions an example."""

from __future__ import annotations

import torch
from torch import Tensor

from soar import curvature, randomness
from soar.errors import UserError
from soar.losses import cross_entropy
from soar.model_state import probing
from soar.objectives import SOAR
from soar.objectives.inner_passes import full_precision
from soar.objectives.objective import OBJECTIVES
from soar.reproduce.measuring.subject import BATCH, Found, Subject, mean


def samples(subject: Subject) -> Found:
    """Give the mean of the regularized loss over test images.

    Args:
        subject: network and images; the options say how many directions, and the objective's own options
    """
    count = int(subject.options["samples"])
    options = dict(subject.options["objective"])
    built = OBJECTIVES.build("soar", options, subject.model, subject.threat, seed=subject.seed)
    assert isinstance(built, SOAR)
    images, labels, index = subject.inputs()
    batches = zip(images.split(BATCH), labels.split(BATCH), index.split(BATCH), strict=True)
    found = torch.cat([regularized_losses(built, *batch, samples=count) for batch in batches])
    passes = built.start.kind.startswith("pgd-") + 1 + count
    return mean(found, forward=passes, backward=passes)


def regularized_losses(objective: SOAR, x: Tensor, y: Tensor, index: Tensor, *, samples: int) -> Tensor:
    r"""Give \( l(x') + \frac1n \sum_i R(x'; z_i) \) of every example, with what the objective trains with.

    The mean over a batch is the objective's own loss with so many samples, at step 0. That keeps the graphs
    of all samples until the end; here each is let go before the next, so a hundred fit into memory.

    Args:
        objective: SOAR, with differences of gradients
        x: images
        y: classes
        index: identity of each example
        samples: n, how many directions an example gets

    Raises:
        UserError: for another way of computing Hz
    """
    if objective.product != "difference":
        raise UserError(f"objective.product: got {objective.product}, expected difference here")

    def loss_at(points: Tensor) -> Tensor:
        return cross_entropy(objective.model(points), y)

    threat, seed = objective.required_threat(), objective.seed
    points = objective.start.points(objective.model, threat, x, y, index=index, seed=seed, step=0).detach()
    total = torch.zeros_like(points[:, 0, 0, 0])
    with probing(objective.model), full_precision(x.device):
        loss, gradient = curvature.input_gradient(loss_at, points)
        for number in range(samples):
            keys = randomness.key(seed, index, f"soar direction {number}", 0)
            z = curvature.draw_direction(keys, tuple(x.shape[1:]), x.dtype)
            along = curvature.difference_product(loss_at, points, gradient, z.pixels, objective.step)
            product = curvature.augmented_product(along, gradient, z, scale=objective.scale)
            norms = curvature.augmented_norm(product)
            total += norms if objective.clamp is None else norms.clamp(max=objective.clamp)
    return (loss + objective.factor(x, 0) * total / samples).detach()
