"""What is remembered about every training example from one epoch to the next."""

from __future__ import annotations

import torch
from torch import Tensor

from soar.objectives.processes import of_all_processes


class Margins:
    """One number for every example, kept by its index; 0 for an example that was never seen.

    The table grows with the highest index it meets. Processes that train together tell each other what they
    found, because the next epoch deals the examples out anew.

    >>> margins = Margins()
    >>> margins.store(torch.tensor([2, 0]), torch.tensor([0.5, 0.25]))
    >>> margins.of(torch.tensor([0, 1, 2, 9]))
    tensor([0.2500, 0.0000, 0.5000, 0.0000])
    """

    def __init__(self) -> None:
        self.table = torch.zeros(0)

    def of(self, index: Tensor) -> Tensor:
        """Look examples up; the answer is on the device of the index.

        Args:
            index: identity of each example
        """
        wanted = index.cpu()
        known = wanted < len(self.table)
        found = torch.zeros(len(wanted))
        found[known] = self.table[wanted[known]]
        return found.to(index.device)

    def store(self, index: Tensor, values: Tensor) -> None:
        """Remember numbers of examples, those that other processes have found too.

        Args:
            index: identity of each example
            values: one number an example
        """
        index = of_all_processes(index)
        values = of_all_processes(values.detach()).to(self.table.dtype)
        missing = int(index.max()) + 1 - len(self.table)
        if missing > 0:
            self.table = torch.cat([self.table, self.table.new_zeros(missing)])
        self.table[index] = values
