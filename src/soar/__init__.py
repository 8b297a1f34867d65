"""Train image classifiers that stay accurate under attack, and measure honestly how robust they are.

Names are imported when they are first used, so that `import soar` is quick and needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from soar import attacks as attacks
    from soar import curvature as curvature
    from soar import data as data
    from soar import errors as errors
    from soar import evaluation as evaluation
    from soar import export as export
    from soar import interop as interop
    from soar import losses as losses
    from soar import models as models
    from soar import objectives as objectives
    from soar import randomness as randomness
    from soar import recipes as recipes
    from soar import report as report
    from soar import runs as runs
    from soar import threat as threat
    from soar import training as training
    from soar.errors import UserError as UserError
    from soar.evaluation.assessment import Assessment as Assessment
    from soar.evaluation.attack import AdversarialExamples as AdversarialExamples
    from soar.evaluation.attack import attack as attack
    from soar.evaluation.certificate import Certificate as Certificate
    from soar.evaluation.certify import certify as certify
    from soar.evaluation.diagnose import diagnose as diagnose
    from soar.evaluation.diagnosis import Diagnosis as Diagnosis
    from soar.evaluation.evaluate import evaluate as evaluate
    from soar.threat import L1 as L1
    from soar.threat import L2 as L2
    from soar.threat import Linf as Linf
    from soar.threat import Threat as Threat

__version__ = "0.1.0"

# The modules in which functions and classes are defined; every other public name is a module itself.
_EVALUATION = (
    *("AdversarialExamples", "Assessment", "Certificate", "Diagnosis"),
    *("attack", "certify", "diagnose", "evaluate"),
)
_HOMES = {
    "UserError": "soar.errors",
    **dict.fromkeys(("L1", "L2", "Linf", "Threat"), "soar.threat"),
    **dict.fromkeys(_EVALUATION, "soar.evaluation"),
}
_MODULES = (
    *("attacks", "curvature", "data", "errors", "evaluation", "export", "interop", "losses", "models"),
    *("objectives", "randomness", "recipes", "report", "runs", "threat", "training"),
)

__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"soar.{name}")
    raise AttributeError(f"module 'soar' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
