"""The distance from each image to the nearest point that fools a model, whatever the ball."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from soar import values
from soar.attacks.attack import Examples
from soar.attacks.fab import FAB
from soar.attacks.oracle import precise, query_model
from soar.attacks.states import select
from soar.errors import UserError
from soar.inputs import check_batch_size, check_images, check_numbers
from soar.model_state import placement, probing, require_module
from soar.prediction import as_input, knowing, predict
from soar.shapes import per_example
from soar.threat import Threat, require_threat

# How often the segment between the image and the nearest point found is halved: to the last digit of float32.
_HALVINGS = 24


class Nearest(NamedTuple):
    """The nearest points that an attack found."""

    points: Tensor
    """points that fool the model; the image itself where it does so or where none was found"""
    norm: Tensor
    """their distance from the images; infinite where none was found"""


def minimal_norm(
    model: nn.Module,
    attack: FAB,
    threat: Threat,
    images: Tensor,
    labels: Tensor,
    *,
    index: Tensor | None = None,
    seed: int = 0,
    batch_size: int = 128,
) -> Nearest:
    """Measure how far every image is from being misclassified: an upper bound on the smallest perturbation.

    The attack runs to its end for every target class. Bisection between the image and the nearest point found
    then takes away what the attack overshoots; for a linear model, away from the edges of the pixel range,
    the distance is exact.

    Args:
        model: any module that maps images in [0, 1] to logits; used in eval mode and left as it was
        attack: how to search
        threat: sets the norm; the radius only decides where further restarts begin
        images: float in [0, 1], or uint8
        labels: true classes
        index: identity of each example; by default its position
        seed: seed of the random starts
        batch_size: how many examples are evaluated at once

    Raises:
        UserError: if images and labels do not fit together or images are out of range

    >>> from soar.threat import L2
    >>> class Line(nn.Module):
    ...     def forward(self, x):
    ...         side = 3 * x[:, 0] + 4 * x[:, 1] - 1
    ...         return torch.stack([-side, side], dim=1)
    >>> minimal_norm(Line(), FAB(), L2(1), torch.tensor([[0.5, 0.5]]), torch.tensor([1])).norm
    tensor([0.5000])
    """
    require_module(model)
    require_threat(threat)
    if not isinstance(attack, FAB):
        raise UserError(f"attack: got a {type(attack).__name__}, expected FAB(...)")
    values.whole(seed, "seed")
    check_batch_size(batch_size)
    check_images(images, labels)
    if index is not None:
        check_numbers(index, len(labels), "index")
    device, dtype = placement(model)
    with probing(model), knowing(labels):
        logits = precise(predict(model, images, batch_size))
        examples = Examples.of(as_input(images, device, dtype), labels, index=index, logits=logits, seed=seed)
        correct = logits.argmax(dim=1) == examples.labels
        found = Nearest(examples.x.clone(), torch.where(correct, torch.inf, 0.0).to(dtype))
        for rows in examples.row[correct].split(batch_size):
            part = _search(model, attack, threat, select(examples, rows), attack.entries(logits.shape[1]))
            found.points[rows], found.norm[rows] = part
    return found


def _search(model: nn.Module, attack: FAB, threat: Threat, examples: Examples, entries: int) -> Nearest:
    """Run the attack to its end toward every target, and keep the nearest point of all."""
    points, norm = examples.x.clone(), examples.x.new_full((len(examples.x),), torch.inf)
    for entry in range(entries):
        state = attack.start(replace(examples, entry=torch.full_like(examples.entry, entry)), threat)
        while not bool(attack.exhausted(state).all()):
            gradient = bool(attack.wants_gradient(state).any())
            _, answer = query_model(model, attack, state, threat, gradient=gradient)
            state = attack.update(state, answer, threat)
        is_nearer = state.distance < norm
        points[is_nearer], norm[is_nearer] = state.best[is_nearer], state.distance[is_nearer]
    found = norm.isfinite().nonzero()[:, 0]
    points[found] = _bisect(model, select(examples, found), points[found])
    norm[found] = threat.norm(points[found] - examples.x[found])
    return Nearest(points, norm)


def _bisect(model: nn.Module, examples: Examples, wrong: Tensor) -> Tensor:
    """Return points between the image and a misclassified point that are misclassified, but only just."""
    x = examples.x
    low, high = x.new_zeros(len(x)), x.new_ones(len(x))
    for _ in range(_HALVINGS if len(x) else 0):
        middle = (low + high) / 2
        predicted = predict(model, torch.lerp(x, wrong, per_example(middle, x)), len(x)).argmax(dim=1)
        is_wrong = predicted != examples.labels
        low, high = torch.where(is_wrong, low, middle), torch.where(is_wrong, middle, high)
    return torch.lerp(x, wrong, per_example(high, x))
