"""Train image classifiers that stay right under attack, and tell honestly how robust they are.

Names are imported when they are first used, so that `import soar` is quick and needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from soar import attacks as attacks
    from soar import data as data
    from soar import export as export
    from soar import interop as interop
    from soar import models as models
    from soar import objectives as objectives
    from soar.errors import UserError as UserError
    from soar.evaluation.assessment import Assessment as Assessment
    from soar.evaluation.attack import AdversarialExamples as AdversarialExamples
    from soar.evaluation.attack import attack as attack
    from soar.evaluation.diagnose import diagnose as diagnose
    from soar.evaluation.diagnosis import Diagnosis as Diagnosis
    from soar.evaluation.evaluate import evaluate as evaluate
    from soar.threat import L2 as L2
    from soar.threat import Linf as Linf
    from soar.threat import Threat as Threat

__version__ = "0.1.0"

_HOMES = {"L2": "soar.threat", "Linf": "soar.threat", "Threat": "soar.threat", "UserError": "soar.errors"}
_HOMES |= dict.fromkeys(
    ("AdversarialExamples", "Assessment", "Diagnosis", "attack", "diagnose", "evaluate"), "soar.evaluation"
)
_PACKAGES = ("attacks", "data", "export", "interop", "models", "objectives", "recipes", "training")

__all__ = [
    "L2",
    "AdversarialExamples",
    "Assessment",
    "Diagnosis",
    "Linf",
    "Threat",
    "UserError",
    "attack",
    "attacks",
    "data",
    "diagnose",
    "evaluate",
    "export",
    "interop",
    "models",
    "objectives",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"soar.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'soar' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
