"""An assessment by AutoAttack as an entry of RobustBench's leaderboards.

RobustBench (Croce et al., 2021, https://robustbench.github.io) keeps one JSON file per model in the folder
model_info/DATASET/THREAT of its repository, with accuracies in percent as text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from soar import epsilon, files, values
from soar.errors import UserError
from soar.evaluation.assessment import CLEAN, Assessment
from soar.evaluation.suites import describe, standard
from soar.runs import Run
from soar.text import interval

BOARDS = {
    ("cifar10", "linf"): Fraction(8, 255),
    ("cifar10", "l2"): Fraction(1, 2),
    ("cifar100", "linf"): Fraction(8, 255),
    ("imagenet", "linf"): Fraction(4, 255),
}
"""the radius of each leaderboard, by dataset and norm"""
IMAGES = {"cifar10": 10_000, "cifar100": 10_000, "imagenet": 5_000}
"""how many test images an entry is evaluated on"""
_FOLDERS = {"linf": "Linf", "l2": "L2"}


@dataclass(frozen=True)
class RobustBenchFile:
    """An entry that was written."""

    path: Path
    folder: str
    """where it belongs in RobustBench's repository"""
    entry: dict[str, Any]
    notes: tuple[str, ...]
    """what RobustBench's maintainers will ask about"""

    @property
    def missing(self) -> tuple[str, ...]:
        """The fields that are still to be filled in; they are null in the file."""
        return tuple(name for name, value in self.entry.items() if value is None)

    def __str__(self) -> str:
        clean, robust = self.entry["clean_acc"], self.entry["autoattack_acc"]
        lines = [f"{self.path}: {clean}% clean, {robust}% under AutoAttack; belongs in {self.folder}"]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"fill in: {', '.join(self.missing)}"] if self.missing else []
        return "\n".join(lines)


def to_robustbench(
    found: Assessment,
    path: str | Path,
    *,
    link: str | None = None,
    name: str | None = None,
    authors: str | None = None,
    additional_data: bool | None = None,
    dataset: str | None = None,
    venue: str | None = None,
    architecture: str | None = None,
    reported: str | None = None,
) -> RobustBenchFile:
    """Write an assessment by AutoAttack as an entry of RobustBench's leaderboards.

    On fewer images than RobustBench evaluates, the entry has a footnote with their number and the interval.

    Args:
        found: by the suite `standard`, alone or before other attacks
        path: the file to make; RobustBench calls it AuthorYearFirstWordOfTheTitle.json
        link: the address of the paper
        name: the title of the paper
        authors: separated by commas
        additional_data: whether the model was trained on more than the dataset
        dataset: cifar10, cifar100 or imagenet, where the assessment does not name it
        venue: where the paper was published, such as "ICML 2020"
        architecture: such as "WideResNet-34-10"
        reported: the robust accuracy that the paper reports, in percent

    Raises:
        UserError: if it is of another suite, dataset, split or threat than a leaderboard, the model is
            randomized, or the file exists

    >>> BOARDS["cifar10", "linf"]
    Fraction(8, 255)
    """
    target = values.place(path, "path")
    dataset = _dataset(found, dataset)
    result = _autoattack(found)
    robust = found.accuracy(result)
    entry = {
        "link": link,
        "name": name,
        "authors": authors,
        "additional_data": additional_data,
        "number_forward_passes": 1,
        "dataset": dataset,
        "venue": venue,
        "architecture": architecture,
        "eps": epsilon.show(found.threat.eps),
        "clean_acc": _percent(found.accuracy(CLEAN)),
        "reported": reported,
        "autoattack_acc": _percent(robust),
    }
    notes = []
    if len(found) < IMAGES[dataset]:
        notes.append(
            f"Evaluated on {len(found):,} of {IMAGES[dataset]:,} test images; the 95% interval of the robust"
            f" accuracy is {interval(*found.interval(result))}."
        )
        entry["footnote"] = notes[0]
    if found.verdict in ("suspicious", "masked"):
        notes.append(f"the checks for gradient masking call the model {found.verdict}; see soar diagnose")
    files.write(target, json.dumps(entry, indent=2, ensure_ascii=False) + "\n", overwrite=False)
    folder = f"model_info/{dataset}/{_FOLDERS[found.threat.norm_name]}"
    return RobustBenchFile(target, folder, entry, tuple(notes))


def from_run(run: Run) -> tuple[Assessment, dict[str, Any]]:
    """Return a run's largest assessment by AutoAttack, and what its recipe knows of an entry.

    Args:
        run: a run folder with assessments of the weights of its checkpoint

    Raises:
        UserError: if there is none
    """
    weights = run.weights().sha256
    usable = []
    for path in sorted(run.path.glob("assessment*.json")):
        found = Assessment.load(path)
        if is_standard(found) and found.weights is not None and found.weights.sha256 == weights:
            usable.append(found)
    if not usable:
        raise UserError(
            f"{run.path}: has no assessment of its weights by AutoAttack, which RobustBench requires; run"
            f" `soar evaluate {run.path} --attacks standard` first"
        )
    options = ",".join(f"{name}={value}" for name, value in run.recipe.model.items() if name != "name")
    known: dict[str, Any] = {"architecture": run.recipe.model["name"] + (options and f":{options}")}
    if run.recipe.training.start_from is None:
        known["additional_data"] = False
    return max(usable, key=lambda found: (_is_on_a_board(found), len(found))), known


def is_standard(found: Assessment) -> bool:
    """Return whether the first attacks are those of the suite `standard`, with its budgets."""
    plan = [describe(one) for one in standard()]
    made = [{name: getattr(one, name) for name in plan[0]} for one in found.attacks[: len(plan)]]
    return made == plan


def _autoattack(found: Assessment) -> str:
    """Return the label of the last attack of AutoAttack; what it leaves is robust to all of them."""
    if not is_standard(found):
        labels = ", ".join(one.label for one in found.attacks) or "none"
        raise UserError(
            f"attacks: got {labels}, expected AutoAttack with its own budgets and nothing before it,"
            " which RobustBench requires; evaluate with --attacks standard"
        )
    if any(note.kind in ("random", "state") for note in found.notes):
        raise UserError("the model is randomized; RobustBench takes only models with deterministic outputs")
    return found.attacks[len(standard()) - 1].label


def _dataset(found: Assessment, given: str | None) -> str:
    """Return the dataset as RobustBench calls it, if it has a leaderboard for it and the threat."""
    known, _, split = found.data.partition(" (")
    dataset = given or known
    if dataset not in IMAGES or len(found) > IMAGES[dataset]:
        raise UserError(
            f"dataset: got {len(found):,} images of {dataset}, expected test images of {', '.join(IMAGES)},"
            " which RobustBench has leaderboards for (--field dataset=NAME, if the data are of one of them)"
        )
    if split not in ("", "test)"):
        raise UserError(f"data: got {found.data}, expected test images; evaluate with --split test")
    if found.threat.eps != BOARDS.get((dataset, found.threat.norm_name)):
        allowed = [f"{norm} {epsilon.show(eps)}" for (name, norm), eps in BOARDS.items() if name == dataset]
        raise UserError(
            f"threat: got {found.threat}, expected {' or '.join(allowed)}, RobustBench's for {dataset};"
            " evaluate with that --norm and --eps"
        )
    return dataset


def _is_on_a_board(found: Assessment) -> bool:
    boards = [eps for (_, norm), eps in BOARDS.items() if norm == found.threat.norm_name]
    return found.threat.eps in boards


def _percent(share: float) -> str:
    """Return a share as RobustBench writes it.

    >>> _percent(0.56167)
    '56.17'
    """
    return f"{100 * share:.2f}"
