"""The paper's augmented matrix, gradient and curvature of a loss in one product."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from soar import randomness
from soar.curvature.products import LogitsAt, logits_along, softmax_curvature
from soar.shapes import per_example


class Direction(NamedTuple):
    """A vector z of d + 1 numbers for each example: one number per pixel, and the last."""

    pixels: Tensor
    last: Tensor


def draw_direction(keys: Tensor, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Direction:
    """Draw z from the standard normal distribution in d + 1 dimensions.

    Args:
        keys: one key per example, from `soar.randomness.key`
        shape: the shape of an image
        dtype: the type of the result
    """
    numbers = randomness.normal(keys, (math.prod(shape) + 1,), dtype)
    return Direction(numbers[:, :-1].reshape(-1, *shape), numbers[:, -1])


def augmented_product(
    hessian_product: Tensor,
    gradient: Tensor,
    direction: Direction,
    *,
    corner: float = 1.0,
    scale: float = 1.0,
) -> Direction:
    r"""Return \( H z = [H_s z_d + z_1 g; \; g^T z_d + c z_1] \), eq. 6 and 11, from its parts.

    Args:
        hessian_product: \( H_s z_d \)
        gradient: g
        direction: z
        corner: c, the last entry of H; 1 in the paper
        scale: a factor on the loss and so on g and \( H_s \); 1 in the paper. It decides where ||Hz|| turns
            from quadratic to linear: below 1/scale the corner dominates
    """
    top = scale * (hessian_product + per_example(direction.last, gradient) * gradient)
    along = (gradient * direction.pixels).flatten(1).sum(dim=1)
    return Direction(top, scale * along + corner * direction.last)


def augmented_norm(product: Direction) -> Tensor:
    """Return ||Hz||, one number per example; its gradient is 0 and not undefined where Hz is 0.

    >>> augmented_norm(Direction(torch.tensor([[0.0, 3.0]]), torch.tensor([4.0])))
    tensor([5.])
    """
    entries = torch.cat([product.pixels.flatten(1), product.last[:, None]], dim=1)
    length: Tensor = torch.linalg.vector_norm(entries, dim=1)
    return length


def gauss_newton_augmented(
    logits: LogitsAt, x: Tensor, y: Tensor, direction: Direction, *, corner: float = 1.0, scale: float = 1.0
) -> tuple[Tensor, Tensor, Direction]:
    r"""Return logits, gradient and H z of cross-entropy, with Gauss-Newton's \( H_s \), in one forward pass.

    The gradient is \( g = J^T (p - e_y) \), so that all of H z comes from t = J z and one backward pass:

    \( [J^T ((diag(p) - p p^T) t + z_1 (p - e_y)); \; (p - e_y)^T t + c z_1] \)

    The product can be differentiated by the weights; the gradient, one more backward pass, cannot.

    Args:
        logits: from images to logits
        x: images
        y: true classes
        direction: z
        corner: c, as in `augmented_product`
        scale: a factor on the loss, as in `augmented_product`
    """
    points = x.detach().requires_grad_()
    with torch.enable_grad():
        outputs, t = logits_along(logits, points, direction.pixels)
        p = outputs.softmax(dim=1)
        residual = p - torch.nn.functional.one_hot(y, p.shape[1])
        pulled = scale * (softmax_curvature(p, t) + direction.last[:, None] * residual)
        # A pass that could be differentiated leaves weight gradients out, also where layers are replaced by
        # `soar.double_backward.FastDoubleBackward`; its graph goes at once.
        gradient = torch.autograd.grad(outputs, points, residual, create_graph=True)[0].detach()
        (top,) = torch.autograd.grad(outputs, points, pulled, create_graph=True)
        last = scale * (residual * t).sum(dim=1) + corner * direction.last
    points.requires_grad_(False)
    return outputs, gradient, Direction(top, last)
