"""Attack through an operation without a useful gradient (BPDA, Athalye et al., ICML 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from soar.errors import UserError, unknown
from soar.model_state import require_module
from soar.prediction import find_logits


def straight_through(model: nn.Module, replacement: Mapping[str, nn.Module | None]) -> nn.Module:
    r"""Return a model with the same outputs whose gradient goes through replacements of some modules.

    forward: y = f(x),    backward: \( \partial y / \partial x := \partial r / \partial x \)

    for each named module f with replacement r. Where f is the identity up to rounding, as quantization or
    JPEG is, so may be r. A function that is no module has to become one first, for instance a line such as
    `x.round()` in `forward`.

    Args:
        model: any module; it is not changed, and shares its parameters with the result
        replacement: by the name of a module, as in `model.named_modules()`, what stands for it in the
            backward pass: a module of the same output shape, or None for the identity

    Raises:
        UserError: if a name does not exist, or a replacement returns another shape

    >>> class Round(nn.Module):
    ...     def forward(self, x: Tensor) -> Tensor:
    ...         return x.round()
    >>> x = torch.tensor([[0.4, 0.6]], requires_grad=True)
    >>> logits = straight_through(nn.Sequential(Round()), {"0": None})(x)
    >>> logits[0, 1].backward()
    >>> logits.detach(), x.grad
    (tensor([[0., 1.]]), tensor([[0., 1.]]))
    """
    return _StraightThrough(model, replacement)


class _StraightThrough(nn.Module):
    def __init__(self, model: nn.Module, replacement: Mapping[str, nn.Module | None]) -> None:
        super().__init__()
        require_module(model)
        if not isinstance(replacement, Mapping) or not replacement:
            raise UserError('replacement: expected modules by name, such as {"quantize": None}')
        names = [name for name, _ in model.named_modules() if name]
        for name, given in replacement.items():
            if name not in names:
                raise unknown("module", name, names, "replacement")
            if given is not None:
                require_module(given)
        self.model, self.names = model, tuple(replacement)
        self.replacements = nn.ModuleList(given or nn.Identity() for given in replacement.values())

    def forward(self, x: Tensor) -> Tensor:
        """Return the model's logits."""
        with ExitStack() as hooks:
            for name, given in zip(self.names, self.replacements, strict=True):
                module, bypass = self.model.get_submodule(name), _Bypass(name, given)
                hooks.enter_context(module.register_forward_pre_hook(bypass.before))
                hooks.enter_context(module.register_forward_hook(bypass.after))
            return find_logits(self.model(x))


class _Bypass:
    """Two hooks around a module, which may change its input in place or be called within itself."""

    def __init__(self, name: str, replacement: nn.Module) -> None:
        self.name, self.replacement = name, replacement
        self.waiting: list[Tensor] = []

    def before(self, _: nn.Module, given: tuple[Any, ...]) -> None:
        x = given[0] if given else None
        if not isinstance(x, Tensor):
            raise UserError(f"replacement: module '{self.name}' takes no tensor as its first argument")
        # The caller may be in a block without gradients, which is one way to lose them.
        with torch.set_grad_enabled(x.requires_grad or torch.is_grad_enabled()):
            self.waiting.append(self.replacement(x.clone()))

    def after(self, _: nn.Module, __: tuple[Any, ...], output: Any) -> Tensor:
        smooth = self.waiting.pop()
        if not isinstance(output, Tensor) or output.shape != smooth.shape:
            got = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
            raise UserError(
                f"replacement: module '{self.name}' returns {got} and its replacement"
                f" shape {tuple(smooth.shape)}, expected the same"
            )
        with torch.set_grad_enabled(smooth.requires_grad or torch.is_grad_enabled()):
            passed: Tensor = _Exchange.apply(output.detach(), smooth)  # type: ignore[no-untyped-call]
            return passed


class _Exchange(torch.autograd.Function):
    """The first tensor forward, the gradient to the second one backward."""

    @staticmethod
    def forward(ctx: Any, exact: Tensor, smooth: Tensor) -> Tensor:  # noqa: ARG004
        return exact.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:  # noqa: ARG004
        return None, gradients[0]
