"""Objectives: what training minimises. Each drops into any loop: `objective(x, y).loss`."""

from soar.objectives.adversarial import Adversarial
from soar.objectives.contract import check_objective
from soar.objectives.foar import FOAR
from soar.objectives.objective import Objective, Output
from soar.objectives.registry import OBJECTIVES
from soar.objectives.soar import SOAR
from soar.objectives.standard import Standard

__all__ = ["FOAR", "OBJECTIVES", "SOAR", "Adversarial", "Objective", "Output", "Standard", "check_objective"]
