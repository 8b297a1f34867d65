"""Evaluation: how robust a model is, and the record of what was found."""

from soar.evaluation.assessment import Assessment, AttackResult, Note
from soar.evaluation.attack import AdversarialExamples, attack
from soar.evaluation.bracket import Bracket, bracket
from soar.evaluation.certificate import Certificate
from soar.evaluation.certify import certify
from soar.evaluation.compare import compare, join
from soar.evaluation.corruptions import Corruptions
from soar.evaluation.curve import Curve
from soar.evaluation.diagnose import diagnose
from soar.evaluation.diagnosis import CheckResult, Diagnosis
from soar.evaluation.evaluate import evaluate
from soar.evaluation.interval import wilson
from soar.evaluation.suites import resolve
from soar.evaluation.target import Target

__all__ = [
    "AdversarialExamples",
    "Assessment",
    "AttackResult",
    "Bracket",
    "Certificate",
    "CheckResult",
    "Corruptions",
    "Curve",
    "Diagnosis",
    "Note",
    "Target",
    "attack",
    "bracket",
    "certify",
    "compare",
    "diagnose",
    "evaluate",
    "join",
    "resolve",
    "wilson",
]
