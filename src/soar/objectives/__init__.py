"""Training objectives; each works in any training loop: `objective(x, y).loss`."""

from soar.objectives.adversarial import RSFGSM, Adversarial, Standard
from soar.objectives.contract import check_objective
from soar.objectives.cure import CURE
from soar.objectives.elle import ELLE
from soar.objectives.foar import FOAR
from soar.objectives.grad_align import GradAlign
from soar.objectives.ibp import IBP
from soar.objectives.llr import LLR
from soar.objectives.mma import MMA
from soar.objectives.nfgsm import NFGSM
from soar.objectives.nuat import NuAT
from soar.objectives.objective import OBJECTIVES, Objective, Output
from soar.objectives.pgi import PGI
from soar.objectives.qub import QUB
from soar.objectives.soar import SOAR, SOARPaper
from soar.objectives.trades import MART, TRADES

__all__ = [
    "CURE",
    "ELLE",
    "FOAR",
    "IBP",
    "LLR",
    "MART",
    "MMA",
    "NFGSM",
    "OBJECTIVES",
    "PGI",
    "QUB",
    "RSFGSM",
    "SOAR",
    "TRADES",
    "Adversarial",
    "GradAlign",
    "NuAT",
    "Objective",
    "Output",
    "SOARPaper",
    "Standard",
    "check_objective",
]
