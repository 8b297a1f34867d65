"""The machine and its software: where computations run, and a record beside every result."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from soar import __version__
from soar.errors import unknown

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "mps")
# Instructions of processors that multiply matrices of bfloat16.
_PRODUCTS = ("avx512_bf16", "amx_bf16", "bf16")
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


def choose_device(name: str) -> str:
    """Return the device that a name stands for; "auto" is the fastest one that works.

    Whether it does is tried out: drivers may be too old for PyTorch, and some operations on whole numbers or
    second derivatives are missing on Apple's MPS, depending on the versions of PyTorch and macOS.

    Args:
        name: auto, cpu, cuda or mps

    Raises:
        UserError: if the name is unknown or the machine has no such device

    >>> choose_device("cpu")
    'cpu'
    """
    import torch

    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name not in DEVICES:
        raise unknown("device", name, DEVICES, "flag --device")
    usable = [device for device, is_available in available.items() if is_available]
    if name not in ("auto", *usable):
        raise unknown("device on this machine", name, ["auto", *usable], "flag --device")
    return next(device for device in usable if device == "cpu" or works(device)) if name == "auto" else name


def works(device: str) -> bool:
    """Return whether a device computes what it is asked for: random numbers, indices, second derivatives.

    >>> works("cpu")
    True
    """
    import torch

    from soar import randomness

    keys = randomness.key(0, torch.arange(4, device="cpu"), "trial")
    pixels = randomness.uniform(keys, (1, 4, 4))
    try:
        # The same 64-bit arithmetic as on the CPU, to the last bit.
        x = randomness.uniform(keys.to(device), (1, 4, 4))
        rows = torch.arange(4, device=device)
        counts = torch.zeros_like(rows).index_add_(0, rows, rows).scatter_reduce_(0, rows, 1 - rows, "amin")
        weight = torch.ones(2, 1, 3, 3, device=device, requires_grad=True)
        loss = torch.nn.functional.conv2d(x.requires_grad_(), weight).tanh().square().sum()
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        gradient.square().sum().backward()
        is_exact = torch.equal(x.detach().cpu(), pixels) and counts.tolist() == [0, 0, -1, -2]
        return is_exact and weight.grad is not None and bool(weight.grad.isfinite().all())
    except (AssertionError, RuntimeError, TypeError):  # whatever a driver or a backend fails with
        return False


@contextmanager
def deterministic(wanted: bool = True) -> Iterator[None]:
    """Let PyTorch use only operations that give the same bits at every run, and restore its settings after.

    On a GPU they are slower, and one without such a version raises a RuntimeError. What cuBLAS needs for it
    must be set before its first use in the process.

    Args:
        wanted: False changes nothing

    >>> import torch
    >>> with deterministic():
    ...     torch.are_deterministic_algorithms_enabled()
    True
    >>> torch.are_deterministic_algorithms_enabled()
    False
    """
    import torch

    if not wanted:
        yield
        return
    was_on = torch.are_deterministic_algorithms_enabled()
    was_mild = torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark, workspace = torch.backends.cudnn.benchmark, os.environ.get(_WORKSPACE)
    os.environ.setdefault(_WORKSPACE, ":4096:8")
    try:
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
        yield
    finally:
        torch.use_deterministic_algorithms(was_on, warn_only=was_mild)
        torch.backends.cudnn.benchmark = benchmark
        if workspace is None:
            os.environ.pop(_WORKSPACE, None)


def computes_bfloat16(device: torch.device) -> bool:
    """Return whether a device computes products of bfloat16 itself; elsewhere they are emulated, slowly.

    Args:
        device: where the products are computed
    """
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    abilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return device.type == "cpu" and any(abilities.get(name) for name in _PRODUCTS)


def environment() -> dict[str, Any]:
    """Return versions, hardware and the command that is running.

    >>> sorted(environment())[:3]
    ['command', 'cores', 'gpu']
    """
    import numpy
    import torch

    return {
        "soar": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "command": shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]]),
    }
