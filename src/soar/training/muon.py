"""Muon: filters of convolutions move by orthogonal matrices, all other parameters by SGD.

`torch.optim.Muon` takes matrices only, not filters of four dimensions, and iterates in bfloat16; here the
iteration has the precision of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.training.weights import decay_groups

MOMENTUM = 0.6
"""momentum of the filters, in Nesterov's form"""
OTHER_RATE = 0.5
"""learning rate of all other parameters, relative to that of the filters"""
# p(s) = a s + b s^3 + c s^5 brings singular values near 1 fastest, though not exactly to 1.
_A, _B, _C = 3.4445, -4.7750, 2.0315
_ITERATIONS = 5
_TINY = 1e-12
_FILTER_DIMENSIONS = 4


def orthogonalized(matrix: Tensor) -> Tensor:
    """Compute a matrix with the same singular vectors, and singular values near 1, by Newton-Schulz.

    X_0 = M / ||M||,  X_{k+1} = a X_k + (b X_k X_k^T + c (X_k X_k^T)^2) X_k,  five times

    Singular values above 1/500 of the norm end between 0.68 and 1.21, smaller ones below; zeros stay zeros.

    Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.

    Args:
        matrix: of any shape; a tall one is transposed, because the products of a wide one are smaller

    >>> orthogonalized(torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    tensor([[0.6888, 0.0000, 0.0000],
            [0.0000, 1.1142, 0.0000]])
    """
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonalized(matrix.T).T
    x: Tensor = matrix / torch.linalg.vector_norm(matrix).clamp(min=_TINY)
    for _ in range(_ITERATIONS):
        square = x @ x.T
        x = _A * x + (_B * square + _C * square @ square) @ x
    return x


class Muon(torch.optim.Optimizer):
    """Muon for the filters of convolutions, flattened to matrices (out, in x height x width), else SGD.

    With the gradient g and the momentum m,

        b = m b + g
        u = g + m b                         for filters, and with Nesterov's momentum; else u = b
        w = w sqrt(out) / ||w||             for filters only
        w = w - lr orthogonalized(u)        for filters, with m = 0.6
        w = w - lr/2 u                      for all other parameters, where g includes weight decay

    The first convolution counts among the others: it sees three channels of an image, not features. A filter
    has no weight decay, as its norm is set before every step.

    Args:
        parameters: all parameters, in the order of the model; the first of four dimensions is the first
            convolution
        lr: learning rate of the filters; 0.1 is usual
        momentum: of all other parameters
        nesterov: whether their momentum has Nesterov's form
        weight_decay: of all other parameters
        weight_decay_norms: whether norms and biases have weight decay, too

    Raises:
        UserError: if no parameters but the first convolution have four dimensions
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        *,
        lr: float,
        momentum: float = 0.85,
        nesterov: bool = True,
        weight_decay: float = 0.0,
        weight_decay_norms: bool = True,
    ) -> None:
        filters = [w for w in parameters if w.dim() == _FILTER_DIMENSIONS][1:]
        if not filters:
            raise UserError(
                "training.optimizer: got muon, but the model has no convolution after its first one, "
                "expected sgd (flag --training.optimizer)"
            )
        ours = {id(w) for w in filters}
        others = [w for w in parameters if id(w) not in ours]
        orthogonal = {"momentum": MOMENTUM, "nesterov": True, "orthogonal": True, "rate": 1.0}
        plain = {"momentum": momentum, "nesterov": nesterov, "orthogonal": False, "rate": OTHER_RATE}
        groups = [
            {"params": filters, "weight_decay": 0.0} | orthogonal,
            *(group | plain for group in decay_groups(others, weight_decay, norms=weight_decay_norms)),
        ]
        super().__init__(groups, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update all parameters that have gradients, each group at its `rate` times its `lr`."""
        assert closure is None, "the gradients are there already"
        for group in self.param_groups:
            for w in group["params"]:
                if w.grad is not None:
                    w.sub_(group["rate"] * group["lr"] * self._direction(w, group))

    def _direction(self, w: Tensor, group: dict[str, Any]) -> Tensor:
        """Return what to subtract; a filter is rescaled."""
        assert w.grad is not None
        momentum = group["momentum"]
        gradient = w.grad.add(w, alpha=group["weight_decay"])
        if w not in self.state:
            self.state[w]["momentum_buffer"] = torch.zeros_like(w)
        buffer = self.state[w]["momentum_buffer"]
        buffer.mul_(momentum).add_(gradient)
        direction = gradient.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        if not group["orthogonal"]:
            return direction
        w.mul_(len(w) ** 0.5 / torch.linalg.vector_norm(w).clamp(min=_TINY))
        return orthogonalized(direction.flatten(1)).reshape(w.shape)
