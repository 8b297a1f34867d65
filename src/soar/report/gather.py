"""Gather what a report shows of a run: read what is on record, compute the rest, and keep it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from soar import __version__, checkpoints, runs
from soar.data import Dataset
from soar.errors import FileError, UserError
from soar.evaluation import Assessment, evaluate
from soar.evaluation.assessment import WORST
from soar.evaluation.journal import fingerprint, remove_journals
from soar.evaluation.suites import resolve
from soar.fuse import inference_copy
from soar.locks import reserved
from soar.model_state import placement
from soar.prediction import as_input
from soar.progress import Mode
from soar.report.content import RunContent, Specimen
from soar.report.drawing.data import Surface
from soar.report.exhibits import training_curves
from soar.report.exhibits.cache import Cache
from soar.report.exhibits.classes import classes_broken
from soar.report.exhibits.commands import commands
from soar.report.exhibits.eps_curve import FACTORS, Breaks, curves, measure
from soar.report.exhibits.gallery import gallery
from soar.report.exhibits.planes import surfaces
from soar.report.exhibits.records import Say, agrees, find_assessment, find_diagnosis
from soar.report.exhibits.subject import Subject
from soar.runs import Run
from soar.training.result import OUTCOME

ATTACKS = "quick"
FOLDER = "report"
"""where a run keeps computed exhibits"""


def gather(
    run: Run,
    *,
    examples: int = 200,
    device: str = "cpu",
    root: Path | None = None,
    seed: int = 0,
    progress: Mode = "quiet",
    say: Say = print,
) -> RunContent:
    """Read what is on record about a run, compute what is not, and give all that a report shows.

    A second call reads what the first has computed, in RUN/report, unless the weights have changed; a call
    after an interruption goes on.

    Args:
        run: the run
        examples: how many test images the computed exhibits are made of
        device: such as "cpu" or "cuda"
        root: the folder of all data sets
        seed: seed of all random numbers
        progress: how to show progress
        say: takes a line for the reader

    Raises:
        UserError: if there is no checkpoint yet, the data set is missing, or answers make no sense
    """
    if examples < 1:
        raise UserError(f"examples: got {examples}, expected at least 1 (flag --examples)")
    data = run.data(root)
    if not len(data.test):
        raise UserError(f"{data.name}: got no test images, expected at least one")
    model = _trained(run, data).to(device)
    quick = inference_copy(model, as_input(data.test.images[:4], *placement(model)))
    shown = Subject(
        model=quick, split=data.test.first(examples), threat=run.threat(), seed=seed, progress=progress
    )
    cache = Cache(run.path / FOLDER, _fingerprint(model, data.name, shown), say)
    found = _assessment(run, data, model, shown, cache, say)
    diagnosis = find_diagnosis(run.path, found.data, found.threat, run.weights(), say)
    breaks = _breaks(shown, cache)
    history = training_curves.read(run.path / "metrics.jsonl")
    environment = _environment(run.path / "environment.json", say)
    return RunContent(
        name=run.path.resolve().name,
        classes=tuple(data.classes),
        assessment=found,
        diagnosis=diagnosis or found.diagnosis,
        accuracy_by_eps=curves(breaks, shown.threat),
        curve_examples=len(shown.split),
        training=training_curves.curves(history),
        trained_seconds=history.seconds,
        guards=training_curves.fired(history, run.recipe, run.path / OUTCOME),
        gallery=cache.kept(
            "gallery", tuple[Specimen, ...], lambda: gallery(shown, breaks), about=repr(breaks)
        ),
        surfaces=cache.kept("surfaces", tuple[Surface, ...], lambda: surfaces(shown)),
        classes_broken=classes_broken(found, len(data.classes), found.predictions(WORST)),
        recipe=(run.path / "recipe.toml").read_text(),
        commands=commands(run.path, environment, found, is_diagnosed=diagnosis is not None),
        environment=environment,
    )


def _trained(run: Run, data: Dataset) -> nn.Module:
    runs.find(run.path)
    if not checkpoints.available(run.path):
        raise UserError(
            f"{run.path}: no checkpoint yet, so there is nothing to report;"
            f" go on with its training (soar train --resume {run.path})"
        )
    return run.trained_model(data)


def _fingerprint(model: nn.Module, data: str, shown: Subject) -> str:
    """Name the weights and everything else that decides what the exhibits show."""
    split = shown.split
    about = f"{__version__} {data} {split.indices.tolist()} {shown.threat} {shown.seed}"
    return fingerprint(model, about, split.images, split.labels)


def _assessment(
    run: Run, data: Dataset, model: nn.Module, shown: Subject, cache: Cache, say: Say
) -> Assessment:
    """Take the best assessment on record, or make one."""
    data_name = f"{data.name} (test)"
    flags = cache.kept("clean", tuple[bool, ...], lambda: tuple(shown.correct.tolist()))
    correct = torch.tensor(flags)
    weights = run.weights()
    known = find_assessment(
        run.path, data_name, shown.threat, weights, say, lambda one: agrees(one, shown.split, correct)
    )
    if known is not None:
        return known
    say(f"{run.path}: no assessment yet; attacking {len(shown.split)} test images (suite {ATTACKS})")
    with _reserved_assessment(run, say) as output:
        journal = None if output is None else output.with_suffix(".partial.jsonl")
        found = evaluate(
            model,
            shown.split,
            shown.threat,
            ATTACKS,
            seed=shown.seed,
            name=str(run.path),
            data_name=data_name,
            progress=shown.progress,
            class_names=tuple(data.classes),
            weights=weights,
            journal=journal,
        )
        if output is None or journal is None:
            return found
        try:
            found.save(output)
        except FileError as error:
            say(str(error))
            return found
        remove_journals(journal)
    say(f"saved {output}")
    # Read it back: files round times, and the page should be the same when it is written again.
    return Assessment.load(output)


@contextmanager
def _reserved_assessment(run: Run, say: Say) -> Iterator[Path | None]:
    """Reserve the file of a new assessment; None if the run folder takes no files, which is said."""
    with ExitStack() as held:
        output = None
        try:
            output = held.enter_context(reserved("assessment", run.path, ".json"))
        except FileError as error:
            say(f"{error}; the assessment is not saved")
        yield output


def _breaks(shown: Subject, cache: Cache) -> Breaks:
    """Measure where examples break, or go on with it."""
    attacks = [one.attack for one in resolve(ATTACKS)]
    about = f"{attacks} {FACTORS}"
    known = cache.load("eps_curve", Breaks, about=about)
    return measure(
        shown, attacks, known=known, keep=lambda found: cache.save("eps_curve", found, about=about)
    )


def _environment(path: Path, say: Say) -> dict[str, Any]:
    try:
        noted = json.loads(path.read_text())
        if isinstance(noted, dict):
            return noted
        say(f"{path}: passed over, it does not hold an environment")
    except OSError as error:
        say(f"{path}: cannot be read ({error.strerror})")
    except ValueError:
        say(f"{path}: damaged, passed over")
    return {}
