"""Train the arms of a study, attack them, gather what was found; a second call goes on where one ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from soar import runs
from soar.attacks import PGD
from soar.attacks.transfer import survives, transfer_points
from soar.data import Dataset, Split
from soar.environment import environment
from soar.errors import UserError
from soar.evaluation import Assessment, evaluate
from soar.evaluation.journal import remove_journals
from soar.evaluation.suites import resolve
from soar.files import ready_folder
from soar.locks import reserved
from soar.progress import Mode
from soar.recipes import Recipe
from soar.runs import Run
from soar.studies.cost import step_costs
from soar.studies.findings import Finding, Findings
from soar.studies.study import Arm, Study, folder_name
from soar.training.prepare import prepare
from soar.training.result import OUTCOME, Outcome


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Where and how a study runs.

    Args:
        folder: holds a run folder for every arm
        flags: recipe fields for all arms, such as ("--epochs", "1")
        device: such as "cpu" or "cuda"
        root: the folder of all data sets
        progress: how to show progress
        say: takes a line for the reader
    """

    folder: Path
    flags: tuple[str, ...] = ()
    device: str = "cpu"
    root: Path | None = None
    progress: Mode = "auto"
    say: Callable[[str], None] = print


def conduct(name: str, study: Study, conditions: Conditions, *, only: Sequence[str] = ()) -> Findings:
    """Train what is not trained yet, attack it, and give all findings.

    An arm that fails does not keep the others from running.

    Args:
        name: what the study is called
        study: what to compare
        conditions: where and how
        only: arms to run now; the others show what was found earlier

    Raises:
        UserError: if a recipe makes no sense or the folder takes no files, before anything is trained
        KeyboardInterrupt: when a signal asked to stop; the same call goes on from there
    """
    for arm in study.arms:
        _check_unchanged(study.recipe_of(arm, conditions.folder, conditions.flags), arm, conditions)
    ready_folder(conditions.folder, "--output")
    rows = []
    for number, arm in enumerate(study.arms, 1):
        if only and arm.name not in only and not (_place(arm, conditions) / OUTCOME).exists():
            rows.append(Finding(arm=arm.name))
            continue
        about = f": {arm.about}" if arm.about else ""
        conditions.say(f"\n{number}/{len(study.arms)} {arm.name}{about}")
        rows.append(_run_arm(study, arm, conditions))
    opened = Run(conditions.folder, study.recipe_of(study.arms[0], conditions.folder, conditions.flags))
    data = opened.data(conditions.root)
    if study.transfer_from:
        rows = _with_transfer(study, rows, data, conditions)
    if study.cost:
        rows = step_costs(rows, data.shape)
    split = _split(data, study)
    return Findings(
        study=name,
        data=f"{data.name} ({study.split})",
        threat=str(opened.threat()),
        examples=len(split),
        transfer_from=study.transfer_from,
        rows=tuple(rows),
        environment=environment(),
    )


def _check_unchanged(recipe: Recipe, arm: Arm, conditions: Conditions) -> None:
    """Refuse to go on with a run of the same name but another recipe."""
    place = _place(arm, conditions)
    if (place / "recipe.toml").exists() and runs.find(place).recipe != recipe:
        raise UserError(
            f"{place} holds a run with another recipe; repeat the fields it was made with"
            " or choose another folder (flag --output)"
        )


def _run_arm(study: Study, arm: Arm, conditions: Conditions) -> Finding:
    """Train and attack one arm; a mistake or a collapse becomes part of the finding."""
    place = _place(arm, conditions)
    recipe = study.recipe_of(arm, conditions.folder, conditions.flags)
    blank = Finding(arm=arm.name, recipe=recipe.as_table())
    try:
        ended = _train(Run(place, recipe), conditions)
        trained = replace(blank, status=ended.status, reason=ended.reason, seconds=ended.seconds)
        found = _attack(Run(place, recipe), study, conditions)
    except UserError as error:
        return replace(blank, status="failed", reason=str(error))
    return replace(trained, accuracy={label: found.accuracy(label) for label in found.names})


def _train(opened: Run, conditions: Conditions) -> Outcome:
    """Train, or go on, or read how an earlier training ended."""
    ended = Outcome.load(opened.path)
    if ended is not None:
        return ended
    started = (opened.path / "recipe.toml").exists()
    trainer = prepare(
        opened, device=conditions.device, root=conditions.root, progress=conditions.progress, resume=started
    )
    if not started:
        opened.create()
    result = trainer.fit()
    if result.status == "interrupted":
        raise KeyboardInterrupt
    return Outcome(result.status, result.reason, round(result.seconds, 1))


def _attack(opened: Run, study: Study, conditions: Conditions) -> Assessment:
    """Attack the best checkpoint, or read what was found before."""
    data = opened.data(conditions.root)
    split = _split(data, study)
    labels = [one.attack.label for one in resolve(study.attacks)]
    for path in sorted(opened.path.glob(f"assessment-{study.split}*.json")):
        found = Assessment.load(path)
        if [one.label for one in found.attacks] == labels and torch.equal(found.index, split.indices):
            return found
    with reserved(f"assessment-{study.split}", opened.path, ".json") as output:
        journal = output.with_suffix(".partial.jsonl")
        found = evaluate(
            opened.trained_model(data).to(conditions.device),
            split,
            opened.threat(),
            study.attacks,
            name=opened.path.name,
            data_name=f"{data.name} ({study.split})",
            progress=conditions.progress,
            journal=journal,
            weights=opened.weights(),
        )
        found.save(output)
        remove_journals(journal)
    return found


def _with_transfer(study: Study, rows: list[Finding], data: Dataset, conditions: Conditions) -> list[Finding]:
    """Show the source's points to every other network."""
    arms = {arm.name: arm for arm in study.arms}

    def network(row: Finding) -> tuple[Run, nn.Module]:
        recipe = study.recipe_of(arms[row.arm], conditions.folder, conditions.flags)
        opened = Run(_place(arms[row.arm], conditions), recipe)
        return opened, opened.trained_model(data).to(conditions.device)

    source = next(row for row in rows if row.arm == study.transfer_from)
    if not source.accuracy:
        return rows
    opened, model = network(source)
    split = _split(data, study)
    points = transfer_points(
        model, PGD(steps=20), opened.threat(), split.images, split.labels, index=split.indices
    )
    shown = []
    for row in rows:
        share = None
        if row.accuracy and row is not source:
            share = float(survives(network(row)[1], points, split.labels).to(torch.float64).mean())
        shown.append(replace(row, transfer=share))
    return shown


def _split(data: Dataset, study: Study) -> Split:
    split: Split = getattr(data, study.split)
    return split.first(study.examples)


def _place(arm: Arm, conditions: Conditions) -> Path:
    return conditions.folder / folder_name(arm.name)
