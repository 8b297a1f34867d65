"""Where computations run."""

from __future__ import annotations

from soar.errors import unknown

CHOICES = ("auto", "cpu", "cuda", "mps")


def choose(name: str) -> str:
    """Return the device that a name stands for; "auto" is the fastest one that is there.

    Args:
        name: auto, cpu, cuda or mps

    Raises:
        UserError: if the name is unknown or the machine has no such device

    >>> choose("cpu")
    'cpu'
    """
    import torch

    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return next(device for device, is_there in there.items() if is_there)
    if name not in there:
        raise unknown("device", name, CHOICES, "flag --device")
    if not there[name]:
        usable = ["auto", *(device for device, is_there in there.items() if is_there)]
        raise unknown("device on this machine", name, usable, "flag --device")
    return name
