"""Follow a model call by call: each tensor that depends on the image gets an interval or is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from soar.bounds import relaxation
from soar.bounds.interval import Interval, rounding
from soar.errors import UserError

# What a call may tell about a tensor without telling its values.
_METADATA = (
    "shape dtype device ndim layout requires_grad is_leaf is_cuda is_meta is_mps is_sparse"
    " is_quantized is_cpu is_mkldnn is_xpu is_nested is_complex is_floating_point size dim numel"
    " nelement stride is_contiguous get_device element_size itemsize nbytes __len__ __hash__"
    " storage_offset ndimension _is_view is_same_size type names grad_fn register_hook"
)
_OF_ITS_SHAPE = "zeros_like ones_like full_like new_zeros new_ones new_full new_tensor"
_UNFOLLOWED = frozenset(f"{_METADATA} {_OF_ITS_SHAPE}".split())


class Linear(NamedTuple):
    """A linear layer: what goes in, and its weights."""

    inputs: Interval
    weight: Tensor
    bias: Tensor | None


class Known(NamedTuple):
    """A tensor that depends on the image: its value at the image itself, and its interval.

    Args:
        value: at the image itself
        interval: over all images that the threat allows
        linear: the linear layer that it comes from directly, if any
    """

    value: Tensor
    interval: Interval
    linear: Linear | None = None


class _Entry(NamedTuple):
    """A tensor of the model, what it stands for, and how autograd says it came about."""

    tensor: Tensor
    known: Known
    grad_fn: Any


Rule = Callable[["Propagation", Sequence[Any], dict[str, Any]], Any]


class Propagation(TorchFunctionMode):
    """While entered, calls on tensors that depend on the image also compute intervals.

    Whatever has no rule is refused by name, and so is whatever reads values, such as `if x.sum() > 0`: what
    such a model does at other images is unknown. A tensor is followed through `detach` and `no_grad`, too.

    Args:
        rules: how each function of torch changes intervals, by its name
        anchor: where relaxed functions leave their offsets, one number per image; None for intervals alone
        alphas: gradients of the lines below ReLUs, in the order of calls, in place of the usual ones
        refine: what tightens an interval before a nonlinear function is relaxed over it
    """

    def __init__(
        self,
        rules: Mapping[str, Rule],
        *,
        anchor: Tensor | None = None,
        alphas: Sequence[Tensor] = (),
        refine: Callable[[Known], Interval] | None = None,
    ) -> None:
        super().__init__()
        self.rules, self.anchor, self.alphas, self.refine = rules, anchor, alphas, refine
        self.relus: list[Interval] = []
        """the intervals of the ReLUs, in the order of calls"""
        # Entries keep their tensors alive: an id is never used again while it is a key.
        self._known: dict[int, _Entry] = {}
        self._overwritten: set[int] = set()
        self._modules: list[str] = []
        self._eps: float | None = None

    def follow(self, known: Known) -> Tensor:
        """Remember a tensor and return it."""
        value = known.value
        self._check_precision(value)
        self._known[id(value)] = _Entry(value, known, value.grad_fn)
        return value

    def known(self, tensor: Any) -> Known | None:
        """Return what is known about a tensor, None if it does not depend on the image."""
        entry = self._known.get(id(tensor))
        if entry is None:
            return None
        if id(tensor) in self._overwritten:
            raise self.refusal("a tensor after another view of it was changed in place")
        if tensor.grad_fn is not entry.grad_fn:
            raise self.refusal("a function with a gradient of its own")
        return entry.known

    def counted(self, value: Tensor, size: Callable[[], Tensor], terms: int) -> Tensor:
        """Return the value of a linear function; where offsets are collected, one that counts its rounding.

        Args:
            value: at the image
            size: the sum of the absolute values of all that is added up for each entry
            terms: how many products are added, there or in the pass back
        """
        self._check_precision(value)
        if self.anchor is None:
            return value
        return relaxation.rounded(value, rounding(value, terms) * size().detach(), self.anchor)

    def tightened(self, known: Known) -> Interval:
        """Return the interval over which a nonlinear function is relaxed."""
        return known.interval if self.refine is None else self.refine(known)

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if not any(self._depends(one) for one in (args, kwargs)):
            return func(*args, **kwargs)
        name = _name(func)
        if name in _UNFOLLOWED:
            return func(*args, **kwargs)
        # Its rounding is that of another precision than the one that bounds allow for.
        if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
            raise self.refusal("autocast, whose rounding is not bounded")
        in_place = bool(kwargs.pop("inplace", False)) or (name.endswith("_") and not name.endswith("__"))
        rule = self.rules.get(name.strip("_"))
        if rule is None:
            raise self.refusal(f"torch's `{name.strip('_')}`, for which there is no bound")
        if kwargs.get("out") is not None:
            raise self.refusal(f"torch's `{name}` with the argument out")
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
            if isinstance(module, torch.jit.ScriptModule):
                self._modules.append(name)
                raise self.refusal("a TorchScript module, whose calls cannot be followed")
            handles.append(module.register_forward_pre_hook(lambda *_, name=name: self._modules.append(name)))
            handles.append(module.register_forward_hook(lambda *_: self._left()))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _check_precision(self, value: Tensor) -> None:
        """Refuse values that are coarser than the image: rounding to them is no rounding of a sum."""
        if self._eps is None and value.dtype in (torch.float32, torch.float64):
            self._eps = torch.finfo(value.dtype).eps
        if self._eps is None or not value.is_floating_point() or torch.finfo(value.dtype).eps > self._eps:
            raise self.refusal(f"{value.dtype}, whose rounding is not bounded")

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
            # A list selects other entries than a tuple does.
            parts = [self._resolved(one) for one in given]
            return tuple(parts) if isinstance(given, tuple) else parts
        return given

    def _followed(self, found: Any) -> Any:
        if isinstance(found, Known):
            return self.follow(found)
        if isinstance(found, list):
            return tuple(self._followed(one) for one in found)
        return found

    def _overwrite(self, tensor: Any, found: Known) -> Tensor:
        """Let a tensor that was changed in place stand for its new value."""
        before = self.known(tensor)
        if before is None:
            raise self.refusal("a change in place of a tensor that did not depend on the image")
        storage = before.value.untyped_storage().data_ptr()
        for key, entry in self._known.items():
            if key != id(tensor) and entry.known.value.untyped_storage().data_ptr() == storage:
                self._overwritten.add(key)
        self.follow(found)
        self._known[id(tensor)] = _Entry(tensor, found, tensor.grad_fn)
        assert isinstance(tensor, Tensor)
        return tensor


def _name(func: Any) -> str:
    """Return what a call is called; of a property, its name."""
    name: str = func.__name__
    return str(func.__self__.__name__) if name == "__get__" else name
