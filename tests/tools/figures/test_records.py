"""The figures that show what is on record: verdicts, work, passes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from matplotlib.patches import Rectangle

from soar.cost.workload import WORKLOADS
from soar.errors import UserError
from soar.evaluation.assessment import Assessment
from soar.evaluation.diagnosis import Diagnosis
from tests.tools.figures.made import keep, x_of
from tools.figures import passes, verdicts, work

ROOT = Path(__file__).parents[3]
MASKED = ROOT / "docs" / "results" / "masking-diagnosis.json"
SOUND = ROOT / "docs" / "results" / "masking-cifar10" / "soar-pgd-1-start.json"
ASSESSMENT = ROOT / "docs" / "results" / "cifar10-small" / "adversarial.json"


def test_attacks_disagree_about_a_masked_network_only() -> None:
    masked, sound = verdicts.table([Diagnosis.load(MASKED), Diagnosis.load(SOUND)])
    assert masked["verdict"] == "masked" and sound["verdict"] == "sound"
    assert masked["cross-entropy"] > 2 * masked["margins"]
    assert sound["PGD-20"] == sound["PGD-20, softened logits"]


def test_verdicts_are_drawn_a_dot_an_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = keep(monkeypatch, verdicts)
    diagnosis = Diagnosis.load(MASKED)
    verdicts.draw([diagnosis], Path())
    (axes,) = figure.axes
    assert [x_of(line)[0] / 100 for line in axes.lines] == pytest.approx(
        list(verdicts.numbers(diagnosis).values())
    )
    assert [label.get_text() for label in axes.get_yticklabels()] == ["soar-zero-start\nmasked"]


def test_a_diagnosis_without_the_checks_is_refused() -> None:
    with pytest.raises(UserError, match="its diagnosis lacks the checks losses or temperature"):
        verdicts.numbers(replace(Diagnosis.load(MASKED), checks=()))


@pytest.mark.parametrize(
    "objective, expected",
    [("standard", 3), ("foar", 8), ("soar", 12), ("soar:hvp=finite-difference", 14), (work.REFERENCE, 23)],
)
def test_a_step_takes_the_arithmetic_that_the_page_counts(objective: str, expected: int) -> None:
    network = replace(WORKLOADS["resnet10-w16"], batch_size=2)
    # The first layer needs no gradient of the image in the last pass, which spares a part of one pass.
    assert work.forward_passes(objective, network) == pytest.approx(expected, abs=0.06)


def test_work_is_drawn_with_its_times(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = keep(monkeypatch, work)
    monkeypatch.setattr(work, "NETWORK", "resnet10-w16")
    monkeypatch.setattr(work, "OBJECTIVES", {"standard": "standard", work.REFERENCE: "PGD-10"})
    times = work.measured(ROOT / "benchmarks" / "results" / "step.json")
    assert len(times["soar"]) == 4
    rows = work.table(times)
    work.draw(rows, times, Path())
    (axes,) = figure.axes
    assert [float(bar.get_width()) for bar in axes.patches if isinstance(bar, Rectangle)] == pytest.approx(
        [3 / 23, 1], abs=0.01
    )
    assert [x_of(line) for line in axes.lines] == [times["standard"], times[work.REFERENCE]]
    assert work.table({})[0]["most"] is None


@pytest.mark.parametrize("content", ["", "{}", json.dumps({"networks": [{"costs": [{}]}]})])
def test_another_file_is_refused_as_times(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(
        UserError, match=r"TIMES: got '.*a.json', expected a file of `soar bench step --output`"
    ):
        work.measured(tmp_path / "a.json")


def test_passes_add_up() -> None:
    assessment = Assessment.load(ASSESSMENT)
    wrong, fooled, stay, everyone, unspared = passes.table(assessment, "PGD-20")
    assert wrong["passes an image"] == 1, "told by the clean prediction"
    assert stay["passes an image"] == 1 + 21 + 20 and unspared["passes an image"] == 21 + 20
    assert everyone["all their passes"] == sum(row["all their passes"] for row in (wrong, fooled, stay))
    assert everyone["count"] == wrong["count"] + fooled["count"] + stay["count"] == 1000


def test_the_area_that_is_drawn_is_what_was_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = keep(monkeypatch, passes)
    assessment = Assessment.load(ASSESSMENT)
    passes.draw(assessment, "PGD-20", Path())
    (axes,) = figure.axes
    heights, edges, _ = axes.patches[1].get_data()  # type: ignore[attr-defined]
    area = (torch.tensor(heights) * torch.tensor(edges).diff()).sum()
    assert int(area) == passes.table(assessment, "PGD-20")[3]["all their passes"]
    assert axes.get_title().startswith("PGD-20: 0.43 of the passes")


def test_an_attack_that_was_not_made_is_refused() -> None:
    with pytest.raises(
        UserError, match="--attack: got 'Square', expected one of FGSM, PGD-20, PGD-20 margin"
    ):
        passes.choose(Assessment.load(ASSESSMENT), "Square")
