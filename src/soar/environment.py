"""The machine and its software: where computations run, and a record beside every result."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from typing import TYPE_CHECKING, Any

from soar import __version__
from soar.errors import unknown

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "mps")
# Instructions of processors that multiply matrices of bfloat16.
_PRODUCTS = ("avx512_bf16", "amx_bf16", "bf16")


def choose_device(name: str) -> str:
    """Return the device that a name stands for; "auto" is the fastest one that is available.

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
    return usable[0] if name == "auto" else name


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
