"""Follow a model call by call: every tensor that depends on the image gets an interval, or the model is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from soar.bounds.interval import Interval
from soar.errors import UserError

# What a call may tell about a tensor without telling its values.
_METADATA = frozenset(
    "shape dtype device ndim layout requires_grad is_leaf is_cuda is_meta is_mps is_sparse is_quantized is_cpu"
    " is_mkldnn is_xpu is_nested is_complex is_floating_point size dim numel nelement stride is_contiguous"
    " get_device element_size itemsize nbytes __len__ __hash__ storage_offset ndimension _is_view"
    " is_same_size type names".split()
)
_OF_ITS_SHAPE = frozenset("zeros_like ones_like full_like new_zeros new_ones new_full new_tensor".split())


class Known(NamedTuple):
    """A tensor that depends on the image: its value at the image itself, and its interval."""

    value: Tensor
    interval: Interval


class Linear(NamedTuple):
    """The last linear layer: what goes in, and its weights."""

    inputs: Interval
    weight: Tensor
    bias: Tensor | None


Rule = Callable[["Propagation", Sequence[Any], dict[str, Any]], Any]


class Propagation(TorchFunctionMode):
    """While entered, calls on tensors that depend on the image also compute intervals.

    Whatever has no rule is refused by name, and so is whatever reads values, such as `if x.sum() > 0`: what
    such a model does at other images is unknown. A tensor is followed through `detach` and `no_grad`, too.

    Args:
        rules: how each function of torch changes intervals, by its name
        anchor: where relaxed functions leave their offsets, two numbers per image; None for intervals alone
        slopes: lower slopes of the ReLUs, in the order of calls, in place of the usual ones
    """

    def __init__(
        self,
        rules: Mapping[str, Rule],
        *,
        anchor: Tensor | None = None,
        slopes: Sequence[Tensor] = (),
    ) -> None:
        super().__init__()
        self.rules, self.anchor, self.slopes = rules, anchor, slopes
        self.relus: list[Interval] = []
        """the intervals of the ReLUs, in the order of calls"""
        self.refine: Callable[[Known], Interval] | None = None
        """what tightens an interval before a nonlinear function is relaxed over it"""
        self.linear: dict[int, Linear] = {}
        """the linear layers by the identity of their outputs"""
        self._known: dict[int, tuple[Tensor, Known]] = {}
        self._modules: list[str] = []

    def follow(self, known: Known) -> Tensor:
        """Remember a tensor and return it."""
        if any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):
            raise self.refusal("autocast, whose rounding is not bounded")
        if known.value.dtype not in (torch.float32, torch.float64):
            raise self.refusal(f"{known.value.dtype}, whose rounding is not bounded")
        self._known[id(known.value)] = known.value, known
        return known.value

    def known(self, tensor: Any) -> Known | None:
        """Return what is known about a tensor, None if it does not depend on the image."""
        held = self._known.get(id(tensor))
        return None if held is None else held[1]

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if not any(self._depends(one) for one in (args, kwargs)):
            return func(*args, **kwargs)
        name = _name(func)
        if name in _METADATA:
            return func(*args, **kwargs)
        if name in _OF_ITS_SHAPE:
            return func(*(_plain(one) for one in args), **kwargs)
        in_place = bool(kwargs.pop("inplace", False)) or (name.endswith("_") and not name.endswith("__"))
        rule = self.rules.get(name.strip("_"))
        if rule is None:
            raise self.refusal(f"torch's `{name.strip('_')}`, for which there is no bound")
        with torch.enable_grad() if self.anchor is not None else nullcontext():
            found = rule(self, self._resolved(args), self._resolved(kwargs))
        if in_place:
            return self._overwrite(args[0], found)
        return self._followed(found)

    def refusal(self, what: str) -> UserError:
        """Return the error for a model that cannot be bounded.

        Args:
            what: what it was found to use
        """
        place = next((f" in '{name}'" for name in reversed(self._modules) if name), "")
        return UserError(f"model: got {what}{place}; `soar certify --method smoothing` takes any model")

    @contextmanager
    def naming(self, model: nn.Module) -> Iterator[None]:
        """Know which module is running, for messages."""
        handles = []
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(lambda *_, name=name: self._modules.append(name)))
            handles.append(module.register_forward_hook(lambda *_: self._left()))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _left(self) -> None:
        self._modules.pop()

    def _depends(self, given: Any) -> bool:
        if isinstance(given, Tensor):
            return id(given) in self._known
        if isinstance(given, Mapping):
            return any(self._depends(one) for one in given.values())
        return isinstance(given, list | tuple) and any(self._depends(one) for one in given)

    def _resolved(self, given: Any) -> Any:
        """Return arguments with what is known in place of tensors that depend on the image."""
        if isinstance(given, Tensor):
            if given.requires_grad and self.anchor is not None and id(given) not in self._known:
                raise self.refusal("a tensor that depends on the image by a function of its own")
            return self.known(given) or given
        if isinstance(given, dict):
            return {name: self._resolved(one) for name, one in given.items()}
        if isinstance(given, list | tuple):
            return [self._resolved(one) for one in given]
        return given

    def _followed(self, found: Any) -> Any:
        if isinstance(found, Known):
            return self.follow(found)
        if isinstance(found, list):
            return tuple(self._followed(one) for one in found)
        return found

    def _overwrite(self, tensor: Tensor, found: Known) -> Tensor:
        """Let a tensor that was changed in place stand for its new value."""
        if tensor._is_view():
            raise self.refusal("a change of part of a tensor in place")
        self.follow(found)
        self._known[id(tensor)] = tensor, found
        if id(found.value) in self.linear:
            self.linear[id(tensor)] = self.linear[id(found.value)]
        return tensor


def _name(func: Any) -> str:
    """Return what a call is called; of a property, its name."""
    name: str = func.__name__
    return str(func.__self__.__name__) if name == "__get__" else name


def _plain(given: Any) -> Any:
    return given.value if isinstance(given, Known) else given
