"""How the square attack moves its patterns in l1 (Croce and Hein, 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from soar.attacks.square_l2 import L2Squares
from soar.shapes import per_example
from soar.threat import L1


@dataclass(frozen=True)
class L1Squares(L2Squares):
    r"""How the square attack moves in l1: as in l2, with lengths in l1 and narrower patterns.

    The start is the nearest point, in ball and pixel range, to tiles of length 1 for every channel. With the
    names of `L2Squares.propose`,

    d_1' = unit(s v + unit(d_1)) (max(eps - ||d||, 0) + channels ||d_12||)

    and the whole is brought to the nearest point of ball and pixel range, as in AutoAttack's own code.
    """

    order: ClassVar[int] = 1

    def _budget(self, delta: Tensor, held: Tensor) -> Tensor:
        unused = (self.eps - torch.linalg.vector_norm(delta.flatten(1), ord=1, dim=1)).clamp(min=0)
        return per_example(unused, delta) + delta.shape[1] * held

    def _placed(self, delta: Tensor, x: Tensor) -> Tensor:
        return L1(self.eps).project(x + delta, x)
