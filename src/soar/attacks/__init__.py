"""Attacks: ways to search for a point that fools a model, and the engine that runs them."""

from soar.attacks.adaptive import Adaptive
from soar.attacks.apgd import APGD
from soar.attacks.attack import ATTACKS, Answer, Attack, Examples, Planned
from soar.attacks.contract import check_attack
from soar.attacks.engine import AttackProgress, run
from soar.attacks.fab import FAB
from soar.attacks.minimal_norm import minimal_norm
from soar.attacks.oracle import perturb
from soar.attacks.pgd import FGSM, PGD
from soar.attacks.record import Outcomes
from soar.attacks.simba import SimBA
from soar.attacks.square import Square
from soar.attacks.straight_through import straight_through
from soar.attacks.transfer import Transfer
from soar.prediction import predict

__all__ = [
    "APGD",
    "ATTACKS",
    "FAB",
    "FGSM",
    "PGD",
    "Adaptive",
    "Answer",
    "Attack",
    "AttackProgress",
    "Examples",
    "Outcomes",
    "Planned",
    "SimBA",
    "Square",
    "Transfer",
    "check_attack",
    "minimal_norm",
    "perturb",
    "predict",
    "run",
    "straight_through",
]
