"""Attacks: ways to search for a point that fools a model, and the engine that runs them."""

from soar.attacks.attack import Answer, Attack, Examples
from soar.attacks.batch import perturb
from soar.attacks.contract import check_attack
from soar.attacks.engine import Outcomes, Progress, run
from soar.attacks.fgsm import FGSM
from soar.attacks.oracle import predict
from soar.attacks.pgd import PGD
from soar.attacks.registry import ATTACKS

__all__ = [
    "ATTACKS",
    "FGSM",
    "PGD",
    "Answer",
    "Attack",
    "Examples",
    "Outcomes",
    "Progress",
    "check_attack",
    "perturb",
    "predict",
    "run",
]
