"""Evaluation: how robust a model is, and the record of what was found."""

from soar.evaluation.assessment import Assessment, AttackResult
from soar.evaluation.attack import AdversarialExamples, attack
from soar.evaluation.compare import compare
from soar.evaluation.diagnose import diagnose
from soar.evaluation.diagnosis import Diagnosis, Evidence
from soar.evaluation.evaluate import evaluate
from soar.evaluation.interval import wilson
from soar.evaluation.joining import join
from soar.evaluation.note import Note
from soar.evaluation.suites import resolve

__all__ = [
    "AdversarialExamples",
    "Assessment",
    "AttackResult",
    "Diagnosis",
    "Evidence",
    "Note",
    "attack",
    "compare",
    "diagnose",
    "evaluate",
    "join",
    "resolve",
    "wilson",
]
