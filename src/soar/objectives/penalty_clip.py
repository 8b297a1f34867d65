"""Clip the gradient of a penalty by itself, before it joins the gradient of the loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from soar.distributed import current


class PenaltyClip:
    r"""Limits the l2 norm of the penalty's gradient with respect to the parameters.

    The penalty is differentiated at once, its gradient is clipped, and a stand-in is returned whose value is
    the penalty's and whose gradient is the clipped one; the penalty is never differentiated a second time.

    What is clipped is the gradient of the whole batch. Processes average theirs first. Micro-batches of one
    update arrive one after the other, so each gets the change that it makes to the clipped sum so far:

        S_m = \sum_{j <= m} g_j / M,   stand-in m has the gradient  M (clip(S_m) - clip(S_{m-1}))

    The M gradients, each scaled by 1/M as accumulation does, then add up to clip(S_M) exactly.

    Args:
        limit: the largest norm that is not scaled down
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._step: int | None = None
        self._calls = 0
        self._sum: list[Tensor] = []
        self._given: list[Tensor] = []

    def apply(
        self, penalty: Tensor, model: nn.Module, *, step: int, micro_batches: int
    ) -> tuple[Tensor, Tensor]:
        """Return the stand-in, and the norm of the gradient so far before it was clipped.

        Args:
            penalty: a scalar, the mean over the micro-batch
            model: whose parameters get the gradient
            step: the update; a new one, or one that is complete, resets the sum over micro-batches
            micro_batches: M, how many calls make up one update
        """
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        gradients = torch.autograd.grad(
            penalty, parameters, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        world = current()
        share = [world.mean(gradient.contiguous()) / micro_batches for gradient in gradients]
        # An update may be computed twice, as when weights are perturbed in between.
        if self._step != step or self._calls == micro_batches:
            self._calls = 0
            self._sum = [torch.zeros_like(gradient) for gradient in share]
            self._given = [torch.zeros_like(gradient) for gradient in share]
        self._step, self._calls = step, self._calls + 1
        self._sum = [total + part for total, part in zip(self._sum, share, strict=True)]
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(total) for total in self._sum]))
        factor = (self.limit / norm.clamp(min=torch.finfo(norm.dtype).tiny)).clamp(max=1)
        wanted = [factor * total for total in self._sum]
        gained = [micro_batches * (new - old) for new, old in zip(wanted, self._given, strict=True)]
        self._given = wanted
        stand_in: Tensor = _StandIn.apply(penalty.detach(), gained, *parameters)  # type: ignore[no-untyped-call]
        return stand_in, norm


class _StandIn(torch.autograd.Function):
    """A number whose gradient with respect to the parameters is given."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor], *parameters: Tensor) -> Tensor:  # noqa: ARG004
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(outer[0] * gradient for gradient in ctx.gradients)
