from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from soar import recipes
from soar.recipes import Recipe
from soar.report.sections import training
from soar.report.sections.training import MOST_POINTS, fired_guards, read_metrics, training_curves
from tests.report.made import made_content
from tests.report.reading import read


def row(step: int, kind: str = "train", **figures: object) -> str:
    return json.dumps({"step": step, "epoch": step / 10, "kind": kind, **figures}) + "\n"


def write(path: Path, *lines: str) -> Path:
    file = path / "metrics.jsonl"
    file.write_text("".join(lines))
    return file


def test_every_figure_gets_a_curve_against_the_epoch(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        row(1, loss=2.0, penalty=0.5, lr=0.1, seconds=1.0),
        row(2, loss=1.0, penalty=0.25, lr=0.2, seconds=2.0),
        row(2, "validation", clean=0.75, robust=0.5, seconds=2.5),
    )
    metrics = read_metrics(file)
    found = {curve.label: (curve.x, curve.y) for curve in training_curves(metrics)}
    assert found == {
        "loss": ((0.1, 0.2), (2.0, 1.0)),
        "penalty": ((0.1, 0.2), (0.5, 0.25)),
        "lr": ((0.1, 0.2), (0.1, 0.2)),
        "clean": ((0.2,), (0.75,)),
        "robust": ((0.2,), (0.5,)),
    }


def test_damaged_lines_and_figures_that_are_no_numbers_are_passed_over(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        row(1, loss=2.0),
        "\x00\x00\n",
        "[1, 2]\n",
        '{"step": 9}\n',
        '{"step": "x", "epoch": 0, "kind": "train"}\n',
        row(2, loss=None),
        row(3, loss="high"),
        row(4, loss=1.0),
        row(5, loss=0.5)[:20],
    )
    assert [(curve.label, curve.x, curve.y) for curve in training_curves(read_metrics(file))] == [
        ("loss", (0.1, 0.4), (2.0, 1.0))
    ]


def test_long_curves_are_averaged_and_keep_their_mean(tmp_path: Path) -> None:
    steps = range(1, 20 * MOST_POINTS + 1)
    file = write(tmp_path, *(row(step, loss=float(step % 2)) for step in steps))
    (loss,) = training_curves(read_metrics(file))
    assert len(loss.y) == MOST_POINTS and set(loss.y) == {0.5}
    assert loss.x[0] == pytest.approx(1.05) and list(loss.x) == sorted(loss.x)


def test_a_run_without_metrics_has_no_curves(tmp_path: Path) -> None:
    metrics = read_metrics(tmp_path / "metrics.jsonl")
    assert training_curves(metrics) == ()


def robust_recipe(*fields: str) -> Recipe:
    return recipes.load("demo-robust", ["--validation.select", "robust", *fields])


def test_the_guard_against_overfitting_says_when_it_fired(tmp_path: Path) -> None:
    shares = (0.5, 0.6, 0.3, 0.55)
    lines = [row(10 * n, "validation", clean=0.9, robust=share) for n, share in enumerate(shares, 1)]
    metrics = read_metrics(write(tmp_path, *lines))
    (line,) = fired_guards(metrics, robust_recipe("--guards.overfitting", "warn"), tmp_path)
    assert line.startswith(
        "epoch 3: catastrophic overfitting: robust validation accuracy fell from 60.0% to 30.0%"
    )
    assert fired_guards(metrics, robust_recipe("--guards.overfitting", "off"), tmp_path) == ()
    judged_clean = recipes.load("demo-standard")
    assert judged_clean.validation.select == "clean" and fired_guards(metrics, judged_clean, tmp_path) == ()


def test_the_guard_of_the_alignment_says_when_it_fired(tmp_path: Path) -> None:
    lines = [row(n, "train", loss=1.0, alignment=1.0 if n < 20 else -1.0) for n in range(1, 40)]
    metrics = read_metrics(write(tmp_path, *lines))
    (line,) = fired_guards(metrics, robust_recipe("--guards.overfitting", "warn"), tmp_path)
    assert "catastrophic overfitting: the alignment of gradients fell from 1.00 to 0.20" in line


def test_what_stopped_a_training_is_told_once(tmp_path: Path) -> None:
    outcome = tmp_path / "outcome.json"
    lines = [row(10, "validation", robust=0.6), row(20, "validation", robust=0.1)]
    metrics = read_metrics(write(tmp_path, *lines))
    (guard,) = fired_guards(metrics, robust_recipe(), tmp_path)
    reason = guard.partition(": ")[2]
    outcome.write_text(json.dumps({"status": "stopped", "reason": reason, "seconds": 1.0}))
    assert fired_guards(metrics, robust_recipe(), tmp_path) == (guard,)
    outcome.write_text(json.dumps({"status": "stopped", "reason": "step 7: the loss is nan", "seconds": 1.0}))
    assert fired_guards(metrics, robust_recipe(), tmp_path)[1:] == (
        "training stopped: step 7: the loss is nan",
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"status": "finished", "reason": ""}'])
def test_other_outcomes_say_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "outcome.json").write_text(text)
    assert fired_guards(read_metrics(tmp_path / "none"), robust_recipe(), tmp_path) == ()


def test_a_run_keeps_its_color_and_its_place_where_another_has_no_training() -> None:
    one, other = made_content(2)
    (drawn, *_) = read(training.draw([replace(one, training=()), other])).all("svg")
    groups = [group for group in drawn.all("g") if "data-run" in group.attributes]
    assert [group.attributes["data-run"] for group in groups] == ["1", "1"]  # the curve, then its name
    assert groups[0].attributes["style"] == "color:var(--series-2)"
