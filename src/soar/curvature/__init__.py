r"""Gradient and curvature of a loss as a function of the image.

Notation of the SOAR paper: for one example, l(x) is the loss, g its gradient and \( H_s \) its Hessian with
respect to the d pixels, and

    H = [[H_s, g], [g^T, 1]]        (d + 1) x (d + 1), eq. 6

so that the second-order expansion around x is \( l + \frac12 \delta'^T H \delta' - \frac12 \) with
\( \delta' = [\delta; 1] \). The paper penalizes E||Hz|| for standard normal z.

`products` has g and \( H_s z \), `augmented` H z.
"""

from soar.curvature.augmented import (
    Direction,
    augmented_norm,
    augmented_product,
    draw_direction,
    gauss_newton_augmented,
)
from soar.curvature.products import (
    LogitsAt,
    LossAt,
    difference_product,
    exact_product,
    gauss_newton_product,
    input_gradient,
    logits_along,
)

__all__ = [
    "Direction",
    "LogitsAt",
    "LossAt",
    "augmented_norm",
    "augmented_product",
    "difference_product",
    "draw_direction",
    "exact_product",
    "gauss_newton_augmented",
    "gauss_newton_product",
    "input_gradient",
    "logits_along",
]
