"""What an objective keeps of every training example from one visit to the next."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from soar.distributed import current


class Memory(nn.Module):
    """A value of every training example, of any shape; 0 for an example never seen.

    The table grows with the highest index it meets, is part of `state_dict`, and stays on the CPU. Processes
    that train together exchange their values, because each sees other examples in the next epoch.

    Args:
        dtype: the type in which values are kept

    >>> memory = Memory()
    >>> memory.store(torch.tensor([2, 0]), torch.tensor([0.5, 0.25]))
    >>> memory.of(torch.tensor([0, 1, 2, 9]))
    tensor([0.2500, 0.0000, 0.5000, 0.0000])
    """

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.table = torch.zeros(0, dtype=dtype, device="cpu")

    def get_extra_state(self) -> Tensor:
        """Return the table; a buffer could not grow, and would follow the model to its device."""
        return self.table

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the table from a checkpoint."""
        self.table = state.to("cpu", copy=True)

    def of(self, index: Tensor, shape: tuple[int, ...] = ()) -> Tensor:
        """Return the values of examples, on the device of the index.

        Args:
            index: identity of each example
            shape: the shape of a value
        """
        wanted = index.cpu()
        known = wanted < len(self.table)
        found = self.table.new_zeros(len(wanted), *shape)
        if len(self.table):
            found[known] = self.table[wanted[known]]
        return found.to(index.device)

    def store(self, index: Tensor, values: Tensor) -> None:
        """Store the values of examples, and those that other processes have found.

        Args:
            index: identity of each example
            values: one value per example
        """
        pairs = current().gather((index.cpu(), values.detach().cpu().to(self.table.dtype)))
        # Autocast joins tensors of its own precision only, and no other half precision.
        with torch.autocast("cpu", enabled=False):
            index, values = (torch.cat(parts) for parts in zip(*pairs, strict=True))
            missing = int(index.max()) + 1 - len(self.table)
            if missing > 0:
                fresh = self.table.new_zeros(missing, *values.shape[1:])
                self.table = torch.cat([self.table, fresh]) if len(self.table) else fresh
        self.table[index] = values
