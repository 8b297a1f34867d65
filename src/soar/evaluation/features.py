"""The features of a network: what its last layer takes, or what a module that is named returns."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from soar import values
from soar.errors import UserError, unknown
from soar.model_state import untouched
from soar.prediction import logits_of


@dataclass(frozen=True, eq=False)
class Features:
    """Where a network's features are read, one row for each image.

    Args:
        model: the network
        module: the one that takes or returns them
        name: of the module, within the network
        is_input: whether they are what it takes, not what it returns
    """

    model: nn.Module
    module: nn.Module
    name: str
    is_input: bool

    def __str__(self) -> str:
        return f"the {'input' if self.is_input else 'output'} of '{self.name}'"

    def __call__(self, x: Tensor) -> Tensor:
        """Return the features of a batch, flattened; gradients flow through them to `x`.

        Raises:
            UserError: if there is not one row of them for each image
        """
        found: list[Any] = []

        def read(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], *result: Any) -> None:  # noqa: ARG001
            # A copy, because a later layer may work in place.
            one = next(iter((*given, *named.values())), None) if self.is_input else result[0]
            found.append(one.clone() if isinstance(one, Tensor) else one)

        register = (
            self.module.register_forward_pre_hook if self.is_input else self.module.register_forward_hook
        )
        hook = register(read, with_kwargs=True)
        try:
            logits_of(self.model, x)
        finally:
            hook.remove()
        last = found[-1] if found else None
        if isinstance(last, Tensor) and last.dim() > 1 and len(last) == len(x) and last.is_floating_point():
            return last.flatten(1)
        if isinstance(last, Tensor):
            got = f"shape {tuple(last.shape)} and {last.dtype}"
        else:
            got = f"a {type(last).__name__}" if found else "no call of it"
        raise UserError(
            f"features: got {got} for {self}, expected a row of numbers for each of {len(x)} images"
        )


def find_features(model: nn.Module, x: Tensor, name: str | None = None) -> Features | None:
    """Return the output of the module of this name, or else what the network's last layer takes.

    That is the linear layer that is called last; where there is none, the last 1 x 1 convolution with a
    channel for each class.

    Args:
        model: the network
        x: some images as it takes them
        name: of a module in the network

    Returns:
        None if no name is given and there is no such layer.

    Raises:
        UserError: if there is no module of this name, or it has no row of numbers for each image

    >>> import torch
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> x = torch.zeros(1, 1, 2, 2)
    >>> print(find_features(model, x), "or", find_features(model, x, "1"))
    the input of '3' or the output of '1'
    """
    modules = dict(model.named_modules())
    with untouched(model):
        if name is not None:
            values.text(name, "features")
            if not name or name not in modules:
                raise unknown("module", name, filter(None, modules), "features")
            chosen = Features(model, modules[name], name, is_input=False)
            chosen(x)
            return chosen
        called: list[str] = []
        with ExitStack() as hooks:
            for each, module in modules.items():
                if isinstance(module, nn.Linear) or _is_pointwise(module):
                    hook = module.register_forward_pre_hook(lambda *_, each=each: called.append(each))
                    hooks.callback(hook.remove)
            classes = logits_of(model, x).shape[1]
        linear = [each for each in called if isinstance(modules[each], nn.Linear)]
        heads = [each for each in called if getattr(modules[each], "out_channels", 0) == classes]
        for each in (*linear[-1:], *heads[-1:]):
            found = Features(model, modules[each], each, is_input=True)
            try:
                found(x)
            except UserError:
                continue
            return found
    return None


def _is_pointwise(module: nn.Module) -> bool:
    return isinstance(module, nn.Conv2d) and set(module.kernel_size) == {1}
