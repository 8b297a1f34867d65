"""Count the samples that go through a model forwards and backwards, whoever sends them."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from torch import Tensor, nn


class Passes:
    """Counts while it is entered.

    A prediction counts once for each sample, a gradient that comes back to the logits likewise.

    Args:
        model: gives logits, or a list of outputs that ends with them

    >>> import torch
    >>> model = nn.Flatten()
    >>> with Passes(model) as passes:
    ...     model(torch.ones(5, 2, requires_grad=True)).sum().backward()
    >>> passes.forward, passes.backward
    (5, 5)
    """

    def __init__(self, model: nn.Module) -> None:
        self.forward = self.backward = 0
        self._model = model

    def __enter__(self) -> Self:
        self._hook = self._model.register_forward_hook(self._count)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hook.remove()

    def _count(self, model: nn.Module, inputs: Any, output: Any) -> None:  # noqa: ARG002 - a hook's arguments
        logits: Tensor = output[-1] if isinstance(output, list | tuple) else output
        self.forward += len(logits)
        if logits.requires_grad:
            logits.register_hook(self._count_back)

    def _count_back(self, gradient: Tensor) -> None:
        self.backward += len(gradient)
