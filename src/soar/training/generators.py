"""The state of torch's own generators, for models that draw from them, as dropout does."""

from __future__ import annotations

import torch
from torch import Tensor

from soar.training.distributed import World


def states(device: torch.device) -> dict[str, Tensor]:
    """Give the states of the generators that a model on this device may use."""
    found = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        found["cuda"] = torch.cuda.get_rng_state(device)
    return found


def restore(of_all: list[dict[str, Tensor]], world: World, device: torch.device) -> None:
    """Give this process its generators back; with another number of processes there is no such thing.

    Args:
        of_all: the states of every process, in the order of ranks
        world: the processes of now
        device: where the model is
    """
    if len(of_all) != world.size:
        return
    own = of_all[world.rank]
    torch.set_rng_state(own["cpu"])
    if device.type == "cuda" and "cuda" in own:
        torch.cuda.set_rng_state(own["cuda"], device)
