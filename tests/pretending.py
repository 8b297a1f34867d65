"""A device that is not there: tensors that compute on the CPU, but say that they are on another device.

It keeps the rules of a real one. Numbers of float64 do not exist on it, as on Apple's MPS, and tensors of
several devices do not mix, except for single numbers. Every time the host needs to know a result, and so
would wait for the device, is recorded: numbers and truth values that are read, shapes that depend on them,
and copies to the CPU. Copies from the CPU, for which a device may have to be waited for as well, are counted
apart.

PyTorch itself takes the tensors for ones on the CPU, so that autograd, with its threads for each device,
works without a driver. What PyTorch's own code decides by the device is therefore not covered.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import one_hot
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = torch.device("mps")
_CPU = torch.device("cpu")
_DOUBLE = (torch.float64, torch.complex128)
_aten = torch.ops.aten
# What the shape, or a plain number, of the result depends on.
_WAITING = {
    _aten._local_scalar_dense,
    _aten.bincount,
    _aten.equal,
    _aten.is_nonzero,
    _aten.masked_select,
    _aten.nonzero,
    _aten.unique_dim,
    _aten._unique2,
}
_INDEXING = {_aten.index, _aten.index_put, _aten.index_put_, _aten._index_put_impl_}
_COPYING = {_aten.copy_, _aten._to_copy}


class OnDevice(Tensor):
    """A tensor that says that it is on the device."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> OnDevice:
        if held.dtype in _DOUBLE:
            raise TypeError(f"the device {DEVICE} has no {held.dtype}")
        made: OnDevice = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=_CPU,
        )
        made.held = held
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return DEVICE

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"OnDevice({self.held!r})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        mine: list[OnDevice] = []
        packet = func.overloadpacket
        allows_cpu = packet in _COPYING or packet in _INDEXING

        def hold(x: Any) -> Any:
            if isinstance(x, OnDevice):
                mine.append(x)
                return x.held
            if isinstance(x, Tensor):
                if x.dim() and not allows_cpu and not _stands_for_nothing(x):
                    raise RuntimeError(
                        f"{packet.__name__}: expected all tensors on {DEVICE}, got one of shape"
                        f" {tuple(x.shape)} and {x.dtype} on the CPU"
                    )
                return x
            return type(x)(map(hold, x)) if type(x) in (list, tuple) else x

        def keep(x: Any) -> Any:
            if isinstance(x, Tensor):
                # What is written in place, or to a given place, stays the same tensor.
                same = next((one for one in mine if one.held is x), None)
                return OnDevice(x) if same is None else same
            return type(x)(map(keep, x)) if type(x) in (list, tuple) else x

        if _record is not None:
            _record.see(packet, args, kwargs)
        found = func(*map(hold, args), **{name: hold(x) for name, x in kwargs.items()})
        if _record is not None and _record.crossing is _CPU and packet is _aten._to_copy:
            return found
        if packet is _aten.copy_ and not isinstance(args[0], OnDevice):
            return args[0]
        return keep(found)


class Record:
    """What the host has waited for.

    Attributes:
        reads: a line for each number that was read from the device, with the place in the program
        uploads: as many copies to the device
    """

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.uploads = 0
        self.crossing: torch.device | None = None

    def see(self, packet: Any, args: Any, kwargs: Any) -> None:
        if packet in _WAITING:
            self.read(packet.__name__)
        elif packet in _INDEXING:
            index = [one for one in args[1] if one is not None]
            if any(one.dtype in (torch.bool, torch.uint8) for one in index):
                self.read("mask")
            self.uploads += sum(not isinstance(one, OnDevice) for one in index)
        elif packet is _aten.repeat_interleave and kwargs.get("output_size") is None:
            self.read("repeat_interleave")
        elif packet is _aten.copy_ and isinstance(args[0], OnDevice) != isinstance(args[1], OnDevice):
            if isinstance(args[0], OnDevice):
                self.uploads += 1
            else:
                self.read("copy")

    def read(self, what: str) -> None:
        frame = sys._getframe(1)
        while frame.f_back is not None and "/src/soar/" not in frame.f_code.co_filename:
            frame = frame.f_back
        where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        self.reads.append(f"{what} at {where}")


_record: Record | None = None


class _Pretending(TorchFunctionMode):
    """Moves and makes tensors for the device; everything else is up to `OnDevice`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        assert _record is not None
        if func is Tensor.to:
            return _to(*args, **kwargs)
        if func in (Tensor.cpu, Tensor.cuda):
            return _to(args[0], "cpu" if func is Tensor.cpu else "cuda")
        if func is Tensor.tolist and isinstance(args[0], OnDevice):
            _record.read("tolist")
            return args[0].held.tolist()
        if func is Tensor.numpy and isinstance(args[0], OnDevice):
            raise TypeError(f"a tensor on {DEVICE} has no numpy array; copy it to the CPU first")
        if func is one_hot and isinstance(args[0], OnDevice):
            # Made of several operations, of which PyTorch itself places one by the device.
            return OnDevice(func(args[0].held, *args[1:], **kwargs))
        if kwargs.get("device") is None:
            return func(*args, **kwargs)
        device = torch.device(kwargs["device"])
        if device == DEVICE and func is torch.as_tensor and isinstance(args[0], Tensor):
            return _to(args[0], DEVICE, kwargs.get("dtype"))
        if device == _CPU and any(isinstance(one, OnDevice) for one in args):
            args = tuple(map(_held, args))
        made = func(*args, **(kwargs | {"device": _CPU}))
        if device != DEVICE or isinstance(made, OnDevice):
            return made
        if func in (torch.tensor, torch.as_tensor, Tensor.new_tensor):
            _record.uploads += 1
        return OnDevice(made.detach()).requires_grad_(made.requires_grad)


class _Making(TorchDispatchMode):
    """Makes tensors on the device where PyTorch itself calls back, as in a backward pass."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("device") != DEVICE:
            return func(*args, **kwargs)
        return OnDevice(func(*map(_held, args), **(kwargs | {"device": _CPU})))


def _to(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    copy = kwargs.pop("copy", False)
    if "other" in kwargs or (args and isinstance(args[0], Tensor)):
        other = kwargs.pop("other", None)
        other = args[0] if other is None else other
        device, dtype, layout = other.device, other.dtype, None
    else:
        device, dtype, _, layout = torch._C._nn._parse_to(*args, **kwargs)
    known: dict[str, Any] = {"dtype": dtype or x.dtype}
    if layout is not None:
        known["memory_format"] = layout
    if device is None or device == x.device:
        return Tensor.to(x, copy=copy, **known)
    assert _record is not None
    if device == _CPU and known["dtype"] in _DOUBLE:
        raise TypeError(
            f"the device {DEVICE} cannot convert to {known['dtype']} on the way; use .cpu() first"
        )
    if device == DEVICE:
        _record.uploads += 1
        assert not (x.requires_grad and torch.is_grad_enabled() and not x.is_leaf), (
            "moves carry no graph here"
        )
        return OnDevice(Tensor.to(x.detach(), copy=True, **known))
    _record.read("to the CPU")
    _record.crossing = _CPU
    try:
        return Tensor.to(x, copy=True, **known)
    finally:
        _record.crossing = None


def on_cpu(x: Tensor) -> Tensor:
    """The numbers of a tensor, wherever it is."""
    held: Tensor = _held(x)
    return held


def _held(x: Any) -> Any:
    return x.held if isinstance(x, OnDevice) else x


def _stands_for_nothing(x: Tensor) -> bool:
    """Whether these are zeros for a missing forward derivative, which PyTorch places itself."""
    return forward_ad._current_level >= 0 and (x.is_meta or not bool(x.any()))


@contextmanager
def pretended() -> Iterator[Record]:
    """Let `DEVICE` exist within this context."""
    global _record
    _record = Record()
    overwrites = torch.__future__.get_overwrite_module_params_on_conversion()
    # Modules would otherwise keep the tensors they have and only change their numbers.
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with _Making(), _Pretending():  # type: ignore[no-untyped-call]
            yield _record
    finally:
        _record = None
        torch.__future__.set_overwrite_module_params_on_conversion(overwrites)
