"""The objectives that recipes and the command line know by name."""

from __future__ import annotations

from soar.objectives.objective import Objective
from soar.registry import Registry

OBJECTIVES: Registry[Objective] = Registry("objective")
