"""The shape of the files that evaluations write, of which the JSON Schemas are made.

What every field means is described in docs/reference/formats.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

# Numbers up to here are the same in every language that reads JSON.
_LARGEST = 2**53 - 1

Verdict = Literal["sound", "inconclusive", "suspicious", "masked"]
AdviceKind = Literal[
    "straight through",
    "average",
    "scaling",
    "softmax",
    "batch",
    "modes",
    "state",
    "adaptive",
    "restarts",
    "autoattack",
    "square",
    "transfer",
    "diagnose",
]
NoteKind = Literal["probabilities", "random", "state", "batch", "modes", "outputs", "other"]
Plain = bool | int | float | str | None
Flags = Annotated[str, Meta(pattern="^[01]*$")]
Count = Annotated[int, Meta(ge=0, le=_LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
# The radius as a person writes it: 8/255, 0.1, 1e-05.
Radius = Annotated[
    str, Meta(pattern=r"^([0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,2})?|[0-9]+/[0-9]+)$", max_length=60)
]


class _Shape(msgspec.Struct, forbid_unknown_fields=True):
    """An object with exactly the fields of its class."""


class ThreatShape(_Shape):
    """What the adversary may do."""

    norm: Literal["linf", "l2", "l1"]
    eps: Radius


class WeightsShape(_Shape):
    """What the model was filled with."""

    file: str
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    step: Count | None


class _RecordShape(_Shape):
    """What all files hold."""

    model: str
    weights: WeightsShape | None
    data: str
    threat: ThreatShape
    seed: int
    examples: Count
    environment: dict[str, Any]


class CheckShape(_Shape):
    """What one check measured and what follows from it."""

    check: str
    title: str
    finding: Verdict
    sentence: str
    rule: str
    numbers: dict[str, Plain]
    excess: float
    advice: list[AdviceKind]
    alternatives: list[Verdict]


class DiagnosisShape(_RecordShape):
    """Checks for gradient masking in one model, the most severe finding first."""

    format: Literal[4]
    kind: Literal["diagnosis"]
    verdict: Verdict
    is_complete: bool
    checks: list[CheckShape]


class AccuracyShape(_Shape):
    """How often the model is correct."""

    share: Share
    interval: Annotated[list[Share], Meta(min_length=2, max_length=2)]


class AttackShape(_Shape):
    """What one attack did, example by example, in the order of `index`."""

    label: str
    name: str
    parameters: dict[str, Plain]
    survivors_only: bool
    samples: Annotated[int, Meta(ge=1, le=_LARGEST)]
    seconds: Annotated[float, Meta(ge=0)]
    robust: Flags
    predictions: list[Count] | None
    forward: list[Count]
    backward: list[Count]


class NoteShape(_Shape):
    """One thing about the model's outputs that misleads attacks."""

    kind: NoteKind
    message: str


class CorruptionShape(_Shape):
    """What one corruption at one severity left, example by example, in the order of `index`."""

    name: str
    severity: Annotated[int, Meta(ge=1, le=5)]
    correct: Flags


class CorruptionsShape(_Shape):
    """Accuracy under common corruptions."""

    source: str
    accuracy: dict[str, Share]
    results: list[CorruptionShape]


class AssessmentShape(_RecordShape):
    """Outcomes of attacks on the same examples, with everything needed to repeat them."""

    format: Literal[4, 5]
    kind: Literal["assessment"]
    accuracy: dict[str, AccuracyShape]
    classes: list[str]
    index: list[Count]
    labels: list[Count]
    correct: Flags
    clean_predictions: list[Count] | None
    attacks: list[AttackShape]
    protocol: str
    notes: list[NoteShape]
    diagnosis: DiagnosisShape | None
    corruptions: CorruptionsShape | None = None


class CertificateShape(_RecordShape):
    """Which examples are proved to be robust, in the order of `index`."""

    format: Literal[1]
    kind: Literal["certificate"]
    accuracy: AccuracyShape
    method: Literal["crown", "ibp", "smoothing"]
    options: dict[str, bool | int | float | str]
    index: list[Count]
    labels: list[Count]
    correct: Flags
    certified: Flags
    seconds: Annotated[float, Meta(ge=0)]
    cpu_seconds: Annotated[float, Meta(ge=0)]


SHAPES: dict[str, type[AssessmentShape | DiagnosisShape | CertificateShape]] = {
    "assessment": AssessmentShape,
    "certificate": CertificateShape,
    "diagnosis": DiagnosisShape,
}


def schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file, as it is shipped beside this module.

    Args:
        kind: "assessment", "certificate" or "diagnosis"
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"soar {kind}",
        **msgspec.json.schema(SHAPES[kind]),
    }


def schema_file(kind: str) -> Path:
    """Return the place of a shipped JSON Schema."""
    return Path(__file__).with_name(f"{kind}.schema.json")
