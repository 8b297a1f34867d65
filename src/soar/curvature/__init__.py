r"""Gradient and curvature of a loss as a function of the image.

Notation of the SOAR paper: for one example, l(x) is the loss, g its gradient and \( H_s \) its Hessian with
respect to the d pixels, and

    H = [[H_s, g], [g^T, 1]]        (d + 1) x (d + 1), eq. 6

so that the second-order expansion around x is \( l + \frac12 \delta'^T H \delta' - \frac12 \) with
\( \delta' = [\delta; 1] \). The paper penalizes E||Hz|| for standard normal z.

Losses are given as functions from images to one number per example. Gradients are taken of their *sum*, so
that each example gets its own in any batch.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from soar import randomness
from soar.double_backward.graph import undifferentiable
from soar.errors import first_line
from soar.shapes import per_example

LossAt = Callable[[Tensor], Tensor]
LogitsAt = Callable[[Tensor], Tensor]
LogitsAlong = Callable[[LogitsAt, Tensor, Tensor], tuple[Tensor, Tensor]]


class Direction(NamedTuple):
    """A vector z of d + 1 numbers for each example: one number per pixel, and the last."""

    pixels: Tensor
    last: Tensor


def input_gradient(loss: LossAt, x: Tensor, *, differentiable: bool = False) -> tuple[Tensor, Tensor]:
    """Return the loss and its gradient g with respect to the image, example by example.

    Args:
        loss: from images to one number per example
        x: images
        differentiable: whether the gradient itself can be differentiated, by the weights or by x

    Returns:
        The losses and the gradients.

    >>> values, g = input_gradient(lambda x: x.square().sum(dim=1), torch.tensor([[1.0, 2.0], [3.0, 0.0]]))
    >>> values, g
    (tensor([5., 9.]), tensor([[2., 4.],
            [6., 0.]]))
    """
    points = x if x.requires_grad else x.detach().requires_grad_()
    with torch.enable_grad():
        values = loss(points)
        if differentiable:
            (gradient,) = _grad(values.sum(), points)
        else:
            (gradient,) = torch.autograd.grad(values.sum(), points)
    if points is not x:
        # These points are used nowhere else; a later backward pass can spare their gradient.
        points.requires_grad_(False)
    return (values, gradient) if differentiable else (values.detach(), gradient)


def difference_product(
    loss: LossAt, x: Tensor, gradient: Tensor, direction: Tensor, step: float, *, differentiable: bool = False
) -> Tensor:
    r"""Return \( H_s z \) by a finite difference of gradients, eq. 10 of the paper.

    \( H_s z \approx ||z|| (g(x + h \tilde z) - g(x)) / h, \quad \tilde z = z / ||z|| \)

    Exact for a quadratic loss. For a network of ReLUs it is mostly the jump of the gradient across the kinks
    that lie within the step, so h is the length at which curvature is measured, and not a matter of accuracy.
    Rounding in g is magnified by ||z|| / h; do not compute it in less than float32.

    Args:
        loss: from images to one number per example
        x: images
        gradient: g at x
        direction: z, one per example
        step: h, the Euclidean length of the step
        differentiable: whether the product itself can be differentiated
    """
    length = per_example(torch.linalg.vector_norm(direction.flatten(1), dim=1), x)
    unit = direction / length.clamp(min=torch.finfo(x.dtype).tiny)
    _, further = input_gradient(loss, (x + step * unit).detach(), differentiable=differentiable)
    product: Tensor = length * (further - gradient) / step
    return product


def exact_product(loss: LossAt, x: Tensor, direction: Tensor, *, differentiable: bool = False) -> Tensor:
    r"""Return \( H_s z = \nabla \langle g, z \rangle \), by differentiating twice.

    Args:
        loss: from images to one number per example
        x: images
        direction: z, one per example
        differentiable: whether the product itself can be differentiated

    >>> x, z = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 1.0]])
    >>> exact_product(lambda x: x.pow(3).sum(dim=1), x, z)
    tensor([[ 6., 12.]])
    """
    points = x if x.requires_grad else x.detach().requires_grad_()
    _, gradient = input_gradient(loss, points, differentiable=True)
    if not gradient.requires_grad:
        return torch.zeros_like(x)
    with torch.enable_grad():
        along = (gradient * direction).sum()
        (product,) = _grad(along, points, create_graph=differentiable, allow_unused=True)
    return product


def gauss_newton_product(
    logits: LogitsAt, x: Tensor, direction: Tensor, *, differentiable: bool = False
) -> Tensor:
    r"""Return \( J^T (diag(p) - p p^T) J z \) for softmax cross-entropy, J the Jacobian of the logits.

    That is \( H_s z \) without the curvature of the logits themselves: exact almost everywhere for networks
    that are linear between kinks. It needs no step, one forward pass of dual numbers and one backward pass,
    and does not depend on the label.

    Args:
        logits: from images to logits
        x: images
        direction: z, one per example
        differentiable: whether the product itself can be differentiated

    >>> uniform = gauss_newton_product(lambda x: x, torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    >>> uniform
    tensor([[ 0.2500, -0.2500]])
    """
    points = x if x.requires_grad else x.detach().requires_grad_()
    with torch.enable_grad():
        outputs, t = logits_along(logits, points, direction)
        q = softmax_curvature(outputs.softmax(dim=1), t)
        q = q if differentiable else q.detach()
        (product,) = _grad(outputs, points, q, create_graph=differentiable)
    if points is not x:
        points.requires_grad_(False)
    return product


def logits_along(logits: LogitsAt, x: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits and their derivative J z along a direction, in one forward pass of dual numbers.

    Args:
        logits: from images to logits, of operations that support forward-mode differentiation
        x: images
        direction: z, one per example

    >>> values, along = logits_along(lambda x: x.square(), torch.tensor([[3.0]]), torch.tensor([[1.0]]))
    >>> values, along
    (tensor([[9.]]), tensor([[6.]]))
    """
    # Primal and tangent must lie alike in memory, or every layer converts one of them.
    tangent = torch.empty_like(x).copy_(direction)
    with forward_ad.dual_level():
        primal, along = forward_ad.unpack_dual(logits(_dual(x, tangent)))
        # Aliases outlive the level; the dual number itself loses its tangent with it.
        found = primal.view_as(primal)
        return found, torch.zeros_like(found) if along is None else along.view_as(along)


def logits_along_backward(logits: LogitsAt, x: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the logits and their derivative J z along a direction, by two backward passes.

    \( J z = \partial \langle J^T u, z \rangle / \partial u \), the same for every u. For models with
    operations that do not support forward-mode differentiation.

    Args:
        logits: from images to logits, of operations that can be differentiated twice
        x: images, which require a gradient
        direction: z, one per example

    >>> x = torch.tensor([[3.0]], requires_grad=True)
    >>> values, along = logits_along_backward(lambda x: x.square(), x, torch.tensor([[1.0]]))
    >>> values.detach(), along.detach()
    (tensor([[9.]]), tensor([[6.]]))
    """
    outputs = logits(x)
    u = torch.zeros_like(outputs, requires_grad=True)
    (pulled,) = _grad(outputs, x, u)
    if not pulled.requires_grad:
        return outputs, torch.zeros_like(outputs)
    (along,) = _grad(pulled, u, direction, allow_unused=True)
    return outputs, along


def softmax_curvature(p: Tensor, t: Tensor) -> Tensor:
    """Return (diag(p) - p p^T) t, the Hessian of cross-entropy by the logits times t.

    Args:
        p: probabilities of the classes
        t: a change of the logits

    >>> softmax_curvature(torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 0.0]]))
    tensor([[ 0.2500, -0.2500]])
    """
    return p * t - p * (p * t).sum(dim=1, keepdim=True)


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
    logits: LogitsAt,
    x: Tensor,
    y: Tensor,
    direction: Direction,
    *,
    corner: float = 1.0,
    scale: float = 1.0,
    along: LogitsAlong | None = None,
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
        along: how J z is computed: `logits_along`, the default, or `logits_along_backward`
    """
    points = x.detach().requires_grad_()
    with torch.enable_grad():
        outputs, t = (along or logits_along)(logits, points, direction.pixels)
        p = outputs.softmax(dim=1)
        residual = p - torch.nn.functional.one_hot(y, p.shape[1])
        pulled = scale * (softmax_curvature(p, t) + direction.last[:, None] * residual)
        # A pass that could be differentiated leaves weight gradients out, also where layers are replaced by
        # `soar.double_backward.FastDoubleBackward`; its graph goes at once.
        gradient = _grad(outputs, points, residual)[0].detach()
        (top,) = _grad(outputs, points, pulled)
        last = scale * (residual * t).sum(dim=1) + corner * direction.last
    points.requires_grad_(False)
    return outputs, gradient, Direction(top, last)


def _grad(
    outputs: Tensor,
    points: Tensor,
    weights: Tensor | None = None,
    *,
    create_graph: bool = True,
    allow_unused: bool = False,
) -> tuple[Tensor, ...]:
    """Return derivatives that can be differentiated, or say in one line that the model has none."""
    try:
        return torch.autograd.grad(
            outputs,
            points,
            weights,
            create_graph=create_graph,
            allow_unused=allow_unused,
            materialize_grads=allow_unused,
        )
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise undifferentiable(first_line(error)) from error


def _dual(x: Tensor, tangent: Tensor) -> Tensor:
    with warnings.catch_warnings():
        # PyTorch compiles a few formulas at the first call, by a function that it deprecates itself.
        warnings.simplefilter("ignore", DeprecationWarning)
        dual: Tensor = forward_ad.make_dual(x, tangent)
    return dual
