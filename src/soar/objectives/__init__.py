"""Objectives: what training minimizes. Each drops into any loop: `objective(x, y).loss`."""

from soar.objectives.adversarial import Adversarial
from soar.objectives.contract import check_objective
from soar.objectives.cure import CURE
from soar.objectives.foar import FOAR
from soar.objectives.llr import LLR
from soar.objectives.mart import MART
from soar.objectives.mma import MMA
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.objectives.soar import SOAR, SOARPaper
from soar.objectives.standard import Standard
from soar.objectives.trades import TRADES

__all__ = [
    "CURE",
    "FOAR",
    "LLR",
    "MART",
    "MMA",
    "OBJECTIVES",
    "SOAR",
    "TRADES",
    "Adversarial",
    "Objective",
    "Output",
    "SOARPaper",
    "Standard",
    "check_objective",
]
