"""A task on a network's features that is known to have a solution: two classes, and a head for every image.

The binarization of Zimmermann et al., *Increasing Confidence in Adversarial Robustness Evaluations* (2022):
the image and random points well inside the ball are of the first class, one point on its surface is of the
second. A linear head on the features that tells them apart makes that point an adversarial example.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from soar import randomness
from soar.attacks.oracle import PerExample
from soar.evaluation.features import Features
from soar.evaluation.target import Target
from soar.model_state import untouched
from soar.threat import Linf, Threat

# Random points besides the image, within this share of the radius, as in the paper.
INNER_POINTS, INNER_SHARE = 15, 0.95
# Where the border lies between the inner points, at 0, and the outer one, at 1, as in the paper.
BORDER = 0.999
# Random points that must miss: where one of them hits, an attack may hit as blindly.
CHANCES = 8
FORWARD = 1 + INNER_POINTS + 2 + CHANCES
"""forward passes for each image"""
# Of the mean variance of the inner points. Without it a head looks along directions in which they happen not
# to vary, and which mean nothing.
_RIDGE = 1e-2
# In units of the last place: more than this lies behind the border, since other batch sizes round otherwise.
_ROUNDING = 8.0


class Heads(NamedTuple):
    """One linear head for each image, with the score z = (w f - t) / s for features f."""

    weight: Tensor
    """w"""
    threshold: Tensor
    """t"""
    scale: Tensor
    """s, so that z falls from 0.001 at the point on the surface to -0.999 at the nearest inner one"""
    separates: Tensor
    """whether the second class is beyond the first by more than rounding"""

    def of(self, rows: Tensor) -> Heads:
        """Return the heads of some of the images."""
        return Heads(*(each[rows] for each in self))


class Binarized(PerExample):
    """A network whose last layer is replaced by one of two classes, another one for each example.

    Args:
        features: of the network
        heads: one for each row
    """

    def __init__(self, features: Features, heads: Heads) -> None:
        super().__init__()
        self.model, self.features, self.heads = features.model, features, heads

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return the logits 0 and z."""
        weight, threshold, scale, _ = self.heads.of(rows)
        z = (torch.linalg.vecdot(self.features(x).double(), weight) - threshold) / scale
        return torch.stack([torch.zeros_like(z), z], dim=1)


def surface_points(x: Tensor, threat: Threat, keys: Tensor) -> Tensor:
    """Draw a point on the surface of each ball, as far out as the pixel range allows.

    It is a corner of a linf ball, since points drawn on its faces are hardly farther out than inner ones, and
    a point with as few changed pixels as possible of an l1 ball.

    Args:
        x: images
        threat: the ball
        keys: one key per example

    >>> surface_points(torch.full((1, 4), 0.5), Linf("0.25"), randomness.key(0, 0, "surface")) - 0.5
    tensor([[-0.2500,  0.2500,  0.2500,  0.2500]])
    """
    shape = tuple(x.shape[1:])
    is_cube = isinstance(threat, Linf)
    drawn = randomness.sign(keys, shape, x.dtype) if is_cube else randomness.normal(keys, shape, x.dtype)
    return threat.project(threat.step(x, drawn, threat.radius), x)


def fit_heads(inner: Tensor, outer: Tensor) -> Heads:
    r"""Fit for each image the linear head that tells one point from some others (Fisher's discriminant).

    w = \lambda (C'C + \lambda I)^{-1} (b - m) = (b - m) - C' (C C' + \lambda I)^{-1} C (b - m)

    C are the inner points less their mean m, b is the outer point. The second form solves a system of the
    size of the number of points, not of features; the paper's logistic head needs iterations. The border then
    lies at 0.999 between the inner point of the highest score and the outer point.

    Args:
        inner: features of the inner points, (images, points, features)
        outer: features of the outer point, (images, features)

    >>> heads = fit_heads(torch.tensor([[[0.0, 0.0], [0.0, 1.0], [0.0, -1.0]]]), torch.tensor([[1.0, 5.0]]))
    >>> [round(number, 2) for number in (heads.weight / heads.weight[:, :1])[0].tolist()]
    [1.0, 0.02]
    """
    mean = inner.mean(dim=1, keepdim=True)
    c, toward = (inner - mean).double(), (outer - mean[:, 0]).double()
    gram = c @ c.mT
    ridge = _RIDGE * gram.diagonal(dim1=1, dim2=2).mean(dim=1, keepdim=True)
    # Above zero also where the inner points have the same features.
    ridge = ridge.clamp(min=torch.finfo(gram.dtype).tiny)
    system = gram + torch.diag_embed(ridge.expand(gram.shape[:2]))
    explained = torch.linalg.solve(system, c @ toward[..., None])
    weight = toward - (c.mT @ explained)[..., 0]
    highest = (inner.double() @ weight[..., None])[..., 0].amax(dim=1)
    products = outer.double() * weight
    gap = products.sum(dim=1) - highest
    rounding = torch.finfo(inner.dtype).eps * torch.linalg.vector_norm(products, dim=1)
    separates = (1 - BORDER) * gap > _ROUNDING * rounding
    return Heads(weight, highest + BORDER * gap, gap.where(separates, 1.0), separates)


def binarize(target: Target, features: Features) -> tuple[Heads, Tensor]:
    """Fit a head for each image, and find out which tasks random points solve.

    Args:
        target: the model, left as it was, its examples and the threat
        features: of the model

    Returns:
        The heads, and which of them put one of some random points of the ball beyond the border.
    """
    threat, fitted, lucky = target.threat, [], []

    def draw(x: Tensor, index: Tensor, stream: str, step: int, share: float = 1.0) -> Tensor:
        radius = torch.full((len(x),), share * threat.radius, dtype=x.dtype, device=x.device)
        return threat.random_start(x, randomness.key(target.seed, index, stream, step), radius)

    with untouched(target.model):
        for x, _, index in target.batches():
            inner = [draw(x, index, "climb inner", i, INNER_SHARE) for i in range(INNER_POINTS)]
            outer = surface_points(x, threat, randomness.key(target.seed, index, "climb surface"))
            inside = torch.stack([features(points) for points in (x, *inner)], dim=1)
            heads = fit_heads(inside, features(outer))
            binarized, rows = Binarized(features, heads), torch.arange(len(x), device=x.device)

            # The network is asked again about the outer points, in case it then answers otherwise.
            asked = [outer, *(draw(x, index, "climb chance", i) for i in range(CHANCES))]
            first, *chances = [binarized(points, rows)[:, 1] > 0 for points in asked]
            fitted.append(heads._replace(separates=heads.separates & first))
            lucky.append(torch.stack(chances).any(dim=0))
    return Heads(*(torch.cat(each) for each in zip(*fitted, strict=True))), torch.cat(lucky)
