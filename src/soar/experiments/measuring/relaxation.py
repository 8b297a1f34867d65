r"""How much is lost by replacing the linf ball by the l2 ball around it: the loss that PGD reaches in each.

The l2 ball has the radius \( \sqrt d \, \epsilon \), 1.7388 for CIFAR-10 and 8/255 (eq. 7 of the paper).
"""

from __future__ import annotations

import math

import torch

from soar import losses
from soar.attacks import PGD
from soar.attacks.transfer import transfer_points
from soar.model_state import probing
from soar.prediction import predict
from soar.experiments.measuring.subject import BATCH, Found, Subject, mean
from soar.threat import L2, Threat

# The step in l2 balls, 2.5 eps over the 100 steps of the paper; in linf balls 2/255 of 8/255.
_L2_STEP, _LINF_STEP = 1 / 40, 1 / 4


def relaxation(subject: Subject) -> Found:
    """Give the mean cross-entropy at the points where PGD ends.

    Args:
        subject: network and images; the option `ball` is linf, or l2 for the ball around it
    """
    threat: Threat = subject.threat
    step = _LINF_STEP
    if subject.options["ball"] == "l2":
        threat, step = L2(threat.enclosing_l2_radius(math.prod(subject.data.shape))), _L2_STEP
    attack = PGD(steps=subject.options["steps"], step_size=step * threat.radius)
    split = subject.split
    points = transfer_points(
        subject.model,
        attack,
        threat,
        split.images,
        split.labels,
        index=split.indices,
        seed=subject.seed,
        batch_size=BATCH,
    )
    with probing(subject.model):
        logits = predict(subject.model, points, BATCH).double()
    found = losses.cross_entropy(logits, split.labels.to(logits.device))
    right = logits.argmax(dim=1).cpu() == split.labels
    details = {"radius": threat.radius, "right": 100 * float(right.to(torch.float64).mean())}
    return mean(found, forward=attack.steps + 1, backward=attack.steps, **details)
