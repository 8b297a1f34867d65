"""Numbers about the regularizer and the networks it makes: confidence, relaxation, samples of z."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from soar import curvature, randomness
from soar.attacks import PGD
from soar.attacks.transfer import transfer_points
from soar.errors import UserError
from soar.evaluation.checks.gradients import gradient_numbers
from soar.experiments.measure.task import BATCH, Found, Task, mean
from soar.losses import cross_entropy
from soar.model_state import probing
from soar.objectives import SOAR
from soar.objectives.inner_passes import full_precision
from soar.objectives.objective import OBJECTIVES
from soar.prediction import logits_of
from soar.threat import L2, Threat

_Z = 1.959963984540054
# The step in l2 balls, 2.5 eps over the 100 steps of the paper; in linf balls 2/255 of 8/255.
_L2_STEP, _LINF_STEP = 1 / 40, 1 / 4


def confidence(task: Task) -> Found:
    """Return the mean of the largest probability over all test images, in percent.

    Args:
        task: the option `at` is clean, random (a random point near the image) or pgd1 (one step of PGD)
    """
    target = task.target
    numbers = gradient_numbers(target)
    name = f"confidence_{task.options['at']}"
    value, deviation = 100 * getattr(numbers, name), 100 * getattr(numbers, f"{name}_std")
    half = _Z * deviation / math.sqrt(len(target))
    return Found(value, value - half, value + half)


def relaxation(task: Task) -> Found:
    r"""Return the mean cross-entropy at the points where PGD ends, in the linf ball or the l2 ball around it.

    The l2 ball has the radius \( \sqrt d \, \epsilon \), 1.7388 for CIFAR-10 and 8/255 (eq. 7 of the paper).

    Args:
        task: the option `ball` is linf or l2
    """
    target = task.target
    threat: Threat = target.threat
    step = _LINF_STEP
    if task.options["ball"] == "l2":
        threat, step = L2(threat.enclosing_l2_radius(math.prod(target.stored.shape[1:]))), _L2_STEP
    attack = PGD(steps=task.options["steps"], step_size=step * threat.radius)
    points = transfer_points(
        target.model,
        attack,
        threat,
        target.images,
        target.labels,
        index=target.index,
        seed=task.seed,
        batch_size=BATCH,
    )
    logits = target.predict(points).cpu().double()
    return mean(cross_entropy(logits, target.labels.cpu()))


def samples(task: Task) -> Found:
    """Return the mean of SOAR's regularized loss over test images, with several random directions for each.

    Args:
        task: the options are the number of directions and those of the objective
    """
    count, target = int(task.options["samples"]), task.target
    options = dict(task.options["objective"])
    built = OBJECTIVES.build("soar", options, target.model, target.threat, seed=task.seed)
    assert isinstance(built, SOAR)
    batches = replace(target, batch_size=BATCH).batches()
    return mean(torch.cat([regularized_losses(built, *batch, samples=count) for batch in batches]))


def regularized_losses(objective: SOAR, x: Tensor, y: Tensor, index: Tensor, *, samples: int) -> Tensor:
    r"""Return \( l(x') + \frac1n \sum_i R(x'; z_i) \) of every example, with the settings of an objective.

    The mean over a batch is the objective's own loss with so many samples, at step 0. That keeps the graphs
    of all samples until the end; here each is freed before the next, so a hundred fit into memory.

    Args:
        objective: SOAR, with differences of gradients
        x: images
        y: classes
        index: identity of each example
        samples: n, the number of directions per example

    Raises:
        UserError: for another way of computing Hz
    """
    if objective.hvp != "finite-difference":
        raise UserError(f"objective.hvp: got {objective.hvp}, expected finite-difference here")

    def loss_at(points: Tensor) -> Tensor:
        return cross_entropy(logits_of(objective.model, points), y)

    threat, seed = objective.required_threat(), objective.seed
    points, _ = objective.init.find(objective.model, threat, x, y, index=index, seed=seed, step=0)
    total = torch.zeros_like(points[:, 0, 0, 0])
    with probing(objective.model), full_precision(x.device):
        loss, gradient = curvature.input_gradient(loss_at, points)
        for number in range(samples):
            keys = randomness.key(seed, index, f"soar direction {number}", 0)
            z = curvature.draw_direction(keys, tuple(x.shape[1:]), x.dtype)
            along = curvature.difference_product(loss_at, points, gradient, z.pixels, objective.fd_step)
            product = curvature.augmented_product(along, gradient, z, scale=objective.loss_scale)
            norms = curvature.augmented_norm(product)
            total += norms if objective.max_norm is None else norms.clamp(max=objective.max_norm)
            if not objective.penalty_floor:
                total -= z.last.abs()
    return (loss + objective.factor(x, 0) * total / samples).detach()
