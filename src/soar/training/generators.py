"""The state of torch's own generators, for models that draw from them, as dropout does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from soar import randomness


@contextmanager
def seeded(seed: int, rank: int, device: torch.device) -> Iterator[None]:
    """Seed the generators for a while, then put them back, so that nobody else notices.

    Args:
        seed: the seed of the run
        rank: the process; each draws numbers of its own
        device: where the model is

    >>> before = torch.get_rng_state()
    >>> with seeded(0, 0, torch.device("cpu")):
    ...     first = torch.rand(3)
    >>> with seeded(0, 0, torch.device("cpu")):
    ...     second = torch.rand(3)
    >>> torch.equal(first, second), torch.equal(torch.get_rng_state(), before)
    (True, True)
    """
    number = int(randomness.key(seed, rank, "torch's generators"))
    before = states(device)
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(number)
    try:
        yield
    finally:
        restore(before, device)


def states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the generators that a model on this device may use."""
    found = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        found["cuda"] = torch.cuda.get_rng_state(device)
    return found


def restore(found: dict[str, Tensor], device: torch.device) -> None:
    """Put the generators into the states that `states` gave."""
    torch.set_rng_state(found["cpu"])
    if device.type == "cuda" and "cuda" in found:
        torch.cuda.set_rng_state(found["cuda"], device)
