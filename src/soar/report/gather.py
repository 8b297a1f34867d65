"""Collect what a report shows of a run: read what is on record, measure the rest, and keep it."""

from __future__ import annotations

import os
import shlex
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from soar import __version__
from soar.errors import FileError, UserError
from soar.evaluation import Assessment, bracket
from soar.evaluation.assessment import WORST
from soar.evaluation.corruptions import Corruptions
from soar.evaluation.journal import fingerprint, remove_journals
from soar.evaluation.protocol import evaluate_target
from soar.evaluation.records import Say, find_assessment, find_assessments, find_certificates, find_diagnosis
from soar.evaluation.suites import resolve
from soar.evaluation.target import Target
from soar.fuse import inference_copy
from soar.locks import reserved
from soar.progress import Mode
from soar.report.cache import ReportCache
from soar.report.content import RunContent
from soar.report.drawing.surfaces import Surface
from soar.report.sections.classes import class_outcomes
from soar.report.sections.gallery import GalleryImage, attack_gallery
from soar.report.sections.provenance import repeat_commands
from soar.report.sections.radius import FACTORS, accuracy_curves, bracket_curves, breaking_radii
from soar.report.sections.surfaces import measure_surfaces
from soar.report.sections.training import fired_guards, read_metrics, training_curves
from soar.runs import Run

ATTACKS = "quick"
FOLDER = "report"
"""where a run keeps measurements for its report"""


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
    """Read what is on record about a run, measure what is not, and return all that a report shows.

    A second call reads what the first has measured, in RUN/report, unless the weights have changed; a call
    after an interruption goes on.

    Args:
        run: the run
        examples: how many test images are measured
        device: such as "cpu" or "cuda"
        root: the folder of all datasets
        seed: seed of all random numbers
        progress: how to show progress
        say: takes a line for the reader

    Raises:
        UserError: if there is no checkpoint yet, the dataset is missing, or the outputs cannot be used
    """
    if examples < 1:
        raise UserError(f"examples: got {examples}, expected at least 1 (flag --examples)")
    target = Target.from_run(run, root=root, examples=examples, device=device, seed=seed, progress=progress)
    if not len(target):
        raise UserError(f"{target.data_name}: got no images, expected at least one")
    # Everything that decides the measurements, weights included.
    about = f"{__version__} {target.data_name} {target.index.tolist()} {target.threat} {target.seed}"
    cache = ReportCache(
        run.path / FOLDER, fingerprint(target.model, about, target.stored, target.labels), say
    )
    quick = replace(target, model=inference_copy(target.model, target.x[:4]))
    found = find_assessment(run.path, target, say) or _assess(run, target, say)
    diagnosis = find_diagnosis(run.path, target, say)
    certificates = find_certificates(run.path, target, say)
    brackets = [bracket(one, found) for one in certificates]
    breaks = _breaking_radii(quick, cache)
    both, both_examples = bracket_curves(breaks[WORST], target, certificates)
    metrics = read_metrics(run.path / "metrics.jsonl")
    environment = _environment(run.path / "environment.json", say)
    return RunContent(
        # A link names a run of the cache, whose own name is a hash.
        name=Path(os.path.abspath(run.path)).name,
        folder=shlex.quote(str(run.path)),
        classes=target.class_names,
        assessment=found,
        diagnosis=diagnosis or found.diagnosis,
        accuracy_by_eps=accuracy_curves(breaks, target.threat),
        curve_examples=len(target),
        training=training_curves(metrics),
        trained_seconds=max((row["seconds"] for row in metrics if "seconds" in row), default=None),
        guards=fired_guards(metrics, run.recipe, run.path),
        gallery=cache.get(
            "gallery",
            tuple[GalleryImage, ...],
            partial(attack_gallery, quick, breaks[WORST]),
            about=str(breaks[WORST]),
        ),
        surfaces=cache.get("surfaces", tuple[Surface, ...], partial(measure_surfaces, quick)),
        class_outcomes=class_outcomes(found, len(target.class_names), found.predictions(WORST)),
        recipe=(run.path / "recipe.toml").read_text(encoding="utf-8"),
        commands=repeat_commands(
            run.path, environment, found, is_diagnosed=diagnosis is not None, certificates=certificates
        ),
        environment=environment,
        certificates=tuple(certificates),
        corruptions=_corruptions(run.path, target, found),
        bracket=next((one for one in brackets if one is not None), None),
        bracket_by_eps=both,
        bracket_examples=both_examples,
    )


def _assess(run: Run, target: Target, say: Say) -> Assessment:
    """Evaluate a run that has no assessment, and save the result where the run folder can be written."""
    say(f"{run.path}: no assessment yet; attacking {len(target)} test images (suite {ATTACKS})")
    with ExitStack() as held:
        try:
            output = held.enter_context(reserved("assessment", run.path, ".json"))
        except FileError as error:
            say(f"{error}; the assessment is not saved")
            return evaluate_target(target, ATTACKS)
        journal = output.with_suffix(".partial.jsonl")
        found = evaluate_target(target, ATTACKS, journal=journal)
        try:
            found.save(output)
        except FileError as error:
            say(str(error))
            return found
        remove_journals(journal)
    say(f"saved {output}")
    # Read it back: files round times, and the page should be the same when it is written again.
    return Assessment.load(output)


def _corruptions(folder: Path, target: Target, found: Assessment) -> Corruptions | None:
    """Return what is on record about corruptions: that of the assessment, else of the largest that has it."""
    measured = [one for one in (found, *find_assessments(folder, target)) if one.corruptions is not None]
    return found.corruptions or max(measured, key=len, default=found).corruptions


def _breaking_radii(target: Target, cache: ReportCache) -> dict[str, tuple[int, ...]]:
    """Measure where examples break under each attack, and under the worst case of all."""
    breaks = {
        attack.label: cache.get(
            f"eps_curve-{number}",
            tuple[int, ...],
            partial(breaking_radii, target, attack),
            about=f"{attack} {FACTORS}",
        )
        for number, attack in enumerate((one.attack for one in resolve(ATTACKS)), 1)
    }
    return {**breaks, WORST: tuple(min(at) for at in zip(*breaks.values(), strict=True))}


def _environment(path: Path, say: Say) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        say(f"{path}: skipped ({error.strerror if isinstance(error, OSError) else 'damaged'})")
        return {}
