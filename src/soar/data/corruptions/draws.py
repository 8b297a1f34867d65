"""The random numbers of a corruption: a function of (seed, index, name), the same at every severity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soar import randomness

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Draws:
    """Random numbers of some examples, a stream of them for each purpose.

    Args:
        seed: the seed of the evaluation
        index: the identity of each example
        name: what the numbers are for; different names are independent

    >>> one, two = (Draws(0, torch.tensor(rows), "fog") for rows in ([3, 4], [4]))
    >>> bool((one.uniform("a", 2)[1] == two.uniform("a", 2)[0]).all())
    True
    """

    seed: int
    index: Tensor
    name: str

    def uniform(self, purpose: str, *shape: int) -> Floats:
        """Draw from the uniform distribution on [0, 1), shape (examples, *shape)."""
        return np.asarray(randomness.uniform(self._keys(purpose), shape, torch.float64).numpy())

    def normal(self, purpose: str, *shape: int) -> Floats:
        """Draw from the standard normal distribution, shape (examples, *shape)."""
        return np.asarray(randomness.normal(self._keys(purpose), shape, torch.float64).numpy())

    def integers(self, purpose: str, high: int, *shape: int) -> Integers:
        """Draw whole numbers from 0 to `high` - 1, shape (examples, *shape)."""
        return np.asarray(randomness.integers(self._keys(purpose), high, shape).numpy())

    def _keys(self, purpose: str) -> Tensor:
        return randomness.key(self.seed, self.index, f"corruption {self.name} {purpose}")
