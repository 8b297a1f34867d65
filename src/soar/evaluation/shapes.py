"""The shape of the files that evaluations write: which fields and values. The JSON Schemas are made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

# Numbers up to here are the same in every language that reads JSON.
_LARGEST = 2**53 - 1

Verdict = Literal["sound", "inconclusive", "suspicious", "masked"]
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

    norm: Annotated[Literal["linf", "l2"], Meta(description="how a change is measured")]
    eps: Annotated[Radius, Meta(description="the radius, exactly, as people write it")]


class WeightsShape(_Shape):
    """What the model was filled with."""

    file: Annotated[str, Meta(description="where the weights were read")]
    sha256: Annotated[str, Meta(description="of the file", pattern="^[0-9a-f]{64}$")]
    step: Annotated[
        Count | None, Meta(description="the training step of the checkpoint; null for other files")
    ]


class _RecordShape(_Shape):
    """What all files hold."""

    model: Annotated[str, Meta(description="what the model is called")]
    weights: Annotated[
        WeightsShape | None, Meta(description="the file of its weights; null where that is not known")
    ]
    data: Annotated[str, Meta(description="what the data are called")]
    threat: Annotated[ThreatShape, Meta(description="what the adversary may do")]
    seed: Annotated[int, Meta(description="seed of all random numbers")]
    examples: Annotated[Count, Meta(description="how many examples were evaluated")]
    environment: Annotated[dict[str, Any], Meta(description="versions, hardware and the command")]


class CheckShape(_Shape):
    """What one check measured and what follows from it."""

    check: Annotated[str, Meta(description="the check's name")]
    title: Annotated[str, Meta(description="what was compared")]
    finding: Annotated[Verdict, Meta(description="what this check alone says about the model")]
    sentence: Annotated[str, Meta(description="the finding in plain words")]
    rule: Annotated[str, Meta(description="the rule that was applied, with its thresholds")]
    numbers: Annotated[
        dict[str, Plain],
        Meta(description="everything that was measured, by name; null where it is not a finite number"),
    ]
    excess: Annotated[
        float, Meta(description="how far the decisive number lies beyond its threshold: 1 is on it")
    ]
    advice: Annotated[str, Meta(description="what to run next; empty where nothing follows")]


class DiagnosisShape(_RecordShape):
    """Checks for gradient masking in one model, the gravest finding first."""

    format: Annotated[Literal[3], Meta(description="the version of this format")]
    kind: Annotated[Literal["diagnosis"], Meta(description="what the file holds")]
    verdict: Annotated[Verdict, Meta(description="the gravest finding of all checks")]
    is_complete: Annotated[
        bool, Meta(description="whether all checks were run, or only those that cost little")
    ]
    checks: Annotated[list[CheckShape], Meta(description="the checks, the gravest finding first")]


class AccuracyShape(_Shape):
    """How often the model is correct."""

    share: Annotated[Share, Meta(description="the share of all examples")]
    interval: Annotated[
        list[Share],
        Meta(description="the 95% interval (Wilson): lower and upper end", min_length=2, max_length=2),
    ]


class AttackShape(_Shape):
    """What one attack did, example by example, in the order of `index`."""

    label: Annotated[str, Meta(description="what the attack is called here; no two are called the same")]
    name: Annotated[str, Meta(description="the attack's class")]
    parameters: Annotated[dict[str, Plain], Meta(description="all its numbers")]
    survivors_only: Annotated[
        bool,
        Meta(
            description="whether it met only what the attacks before it had left; robust is then what is left"
        ),
    ]
    samples: Annotated[
        int, Meta(description="outputs of a randomized model averaged at every point", ge=1, le=_LARGEST)
    ]
    seconds: Annotated[float, Meta(description="the time it took", ge=0)]
    robust: Annotated[
        Flags, Meta(description="1 where the example is correctly classified and stays so under the attack")
    ]
    predictions: Annotated[
        list[Count] | None,
        Meta(
            description="the class predicted at the adversarial point; the label where the example is robust;"
            " the clean prediction where that is wrong already; null where they are not known"
        ),
    ]
    forward: Annotated[list[Count], Meta(description="forward passes spent on each example")]
    backward: Annotated[list[Count], Meta(description="backward passes spent on each example")]


class NoteShape(_Shape):
    """One thing about the model's outputs that misleads attacks."""

    kind: Annotated[NoteKind, Meta(description="what it is")]
    message: Annotated[str, Meta(description="what was got, what is expected and what to do")]


class AssessmentShape(_RecordShape):
    """Outcomes of attacks on the same examples, with everything needed to repeat them."""

    format: Annotated[Literal[4], Meta(description="the version of this format")]
    kind: Annotated[Literal["assessment"], Meta(description="what the file holds")]
    accuracy: Annotated[
        dict[str, AccuracyShape],
        Meta(description="clean, by each attack's label, and worst case; made from the examples below"),
    ]
    classes: Annotated[list[str], Meta(description="the name of every class, or empty")]
    index: Annotated[list[Count], Meta(description="each example's position in its data")]
    labels: Annotated[list[Count], Meta(description="each example's true class")]
    correct: Annotated[Flags, Meta(description="1 where the clean image is correctly classified")]
    clean_predictions: Annotated[
        list[Count] | None,
        Meta(description="the class predicted for each clean image; null where they are not known"),
    ]
    attacks: Annotated[list[AttackShape], Meta(description="in the order in which they ran")]
    notes: Annotated[list[NoteShape], Meta(description="what about the model's outputs misleads attacks")]
    diagnosis: Annotated[
        DiagnosisShape | None, Meta(description="what was found about gradient masking, as in its own file")
    ]

    def __post_init__(self) -> None:
        """Refuse parts that contradict each other."""
        _check_lengths(self)
        if len(set(self.index)) < len(self.index):
            raise ValueError("index names an example twice")
        if self.classes and max(self.labels, default=0) >= len(self.classes):
            raise ValueError(
                f"label {max(self.labels)} has no name in classes, which are {len(self.classes)}"
            )
        known = {"clean", "worst case", *(attack.label for attack in self.attacks)}
        if len(known) < 2 + len(self.attacks):
            raise ValueError("two attacks have the same label")
        if self.accuracy.keys() != known:
            raise ValueError("accuracy does not name clean, the attacks and the worst case")
        worst = correct = [int(flag) for flag in self.correct]
        _check_predictions(self.clean_predictions, self.labels, correct, "clean_predictions", "correct")
        _check_share(self.accuracy["clean"], correct, "clean")
        for place, attack in enumerate(self.attacks):
            robust, name = [int(flag) for flag in attack.robust], f"attacks[{place}]"
            if any(one > other for one, other in zip(robust, correct, strict=True)):
                raise ValueError(f"{name}.robust has examples that are not correct")
            _check_predictions(attack.predictions, self.labels, robust, f"{name}.predictions", "robust")
            _check_share(self.accuracy[attack.label], robust, f"{name}.robust")
            worst = [one & other for one, other in zip(worst, robust, strict=True)]
        _check_share(self.accuracy["worst case"], worst, "worst case")


SHAPES: dict[str, type[AssessmentShape | DiagnosisShape]] = {
    "assessment": AssessmentShape,
    "diagnosis": DiagnosisShape,
}


def schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file, as it is shipped beside this module.

    Args:
        kind: "assessment" or "diagnosis"
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"soar {kind}",
        **msgspec.json.schema(SHAPES[kind]),
    }


def schema_file(kind: str) -> Path:
    """Return the place of a shipped JSON Schema."""
    return Path(__file__).with_name(f"{kind}.schema.json")


def _check_lengths(stored: AssessmentShape) -> None:
    """Refuse lists that do not have an entry for each example."""
    parts: dict[str, Any] = {
        name: getattr(stored, name) for name in ("index", "labels", "correct", "clean_predictions")
    }
    for place, attack in enumerate(stored.attacks):
        for name in ("robust", "predictions", "forward", "backward"):
            parts[f"attacks[{place}].{name}"] = getattr(attack, name)
    for name, values in parts.items():
        if values is not None and len(values) != stored.examples:
            raise ValueError(f"{name} has {len(values)} entries for {stored.examples} examples")


def _check_predictions(
    predictions: list[int] | None, labels: list[int], flags: list[int], name: str, flags_name: str
) -> None:
    """Refuse predictions that are the label where the flag is 0, or the other way round."""
    for example, predicted in enumerate(predictions or ()):
        if (predicted == labels[example]) != flags[example]:
            raise ValueError(f"{name}[{example}] is {predicted} but {flags_name} says otherwise")


def _check_share(stated: AccuracyShape, flags: list[int], name: str) -> None:
    """Refuse an accuracy that is not that of the examples."""
    share = sum(flags) / max(1, len(flags))
    if abs(stated.share - share) > 1e-9:
        raise ValueError(f"accuracy of {name} is {stated.share} but the examples give {share}")
