"""Find the module in which a gradient is lost, so that one can look there and attack through it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from soar import losses
from soar.evaluation.target import Target
from soar.model_state import untouched
from soar.prediction import logits_of


def lost_in(target: Target) -> str:
    """Return the name of the innermost module that has a gradient at its output and none at its input.

    Only a module whose output has the shape of its input is named, since the identity may stand for it in the
    backward pass (`soar.attacks.straight_through`). The name is empty if there is none, as where `forward` of
    the model itself cuts the graph.

    Args:
        target: at least one image; the first batch is looked at

    >>> from soar.threat import Linf
    >>> model = nn.Sequential(nn.Flatten(), nn.Hardtanh(2.0, 3.0), nn.Linear(4, 2))
    >>> lost_in(Target(model=model, data=(torch.zeros(1, 1, 2, 2), torch.tensor([0])), threat=Linf("0.1")))
    '1'
    """
    x, labels, _ = next(target.batches())
    passages: list[_Passage] = []
    with untouched(target.model), ExitStack() as hooks, torch.enable_grad():
        for name, module in target.model.named_modules():
            if name:
                passage = _Passage(name)
                passages.append(passage)
                hooks.enter_context(module.register_forward_pre_hook(passage.before))
                hooks.enter_context(module.register_forward_hook(passage.after))
        score = losses.margin(logits_of(target.model, x), labels).sum()
        # The innermost has the longest name.
        lost = [one.name for one in passages if one.loses(score)]
    return max(lost, key=lambda name: name.count("."), default="")


class _Passage:
    """Two hooks around a module, which keep what goes in and what comes out."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.given: Tensor | None = None
        self.output: Tensor | None = None

    def before(self, _: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if not (given and isinstance(given[0], Tensor) and given[0].is_floating_point()):
            return None
        self.given = _traced(given[0])
        return self.given.clone(), *given[1:]

    def after(self, _: nn.Module, __: tuple[Any, ...], output: Any) -> Tensor | None:
        if not isinstance(output, Tensor):
            return None
        self.output = _traced(output)
        return self.output.clone()

    def loses(self, score: Tensor) -> bool:
        """Return whether a score has a gradient at the output, but none at the input."""
        if self.given is None or self.output is None or self.given.shape != self.output.shape:
            return False
        return _reaches(score, self.output) and not _reaches(score, self.given)


def _traced(point: Tensor) -> Tensor:
    """Return the same numbers as part of a graph; what was cut off begins one of its own."""
    return point if point.requires_grad else point.detach().requires_grad_()


def _reaches(score: Tensor, point: Tensor) -> bool:
    if not score.requires_grad:
        return False
    (gradient,) = torch.autograd.grad(score, point, retain_graph=True, allow_unused=True)
    return gradient is not None and bool((gradient.nan_to_num(nan=0.0) != 0).any())
