"""Attacks: ways to search for a point that fools a model, and the engine that runs them."""

from soar.attacks.apgd import APGD
from soar.attacks.attack import Answer, Attack, Examples
from soar.attacks.batch import perturb
from soar.attacks.contract import check_attack
from soar.attacks.engine import Progress, run
from soar.attacks.fab import FAB
from soar.attacks.fgsm import FGSM
from soar.attacks.minimal_norm import minimal_norm
from soar.attacks.oracle import predict
from soar.attacks.pgd import PGD
from soar.attacks.plan import Planned
from soar.attacks.record import Outcomes
from soar.attacks.registry import ATTACKS
from soar.attacks.simba import SimBA
from soar.attacks.square import Square
from soar.attacks.suites import resolve
from soar.attacks.transfer import Transfer

__all__ = [
    "APGD",
    "ATTACKS",
    "FAB",
    "FGSM",
    "PGD",
    "Answer",
    "Attack",
    "Examples",
    "Outcomes",
    "Planned",
    "Progress",
    "SimBA",
    "Square",
    "Transfer",
    "check_attack",
    "minimal_norm",
    "perturb",
    "predict",
    "resolve",
    "run",
]
