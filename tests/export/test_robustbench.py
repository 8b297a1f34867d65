"""Entries of RobustBench's leaderboards, held to the files of its repository."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from soar.attacks import APGD, PGD, Square
from soar.attacks.attack import Planned
from soar.errors import UserError
from soar.evaluation import Assessment, AttackResult, evaluate
from soar.evaluation.assessment import Note
from soar.evaluation.suites import describe, standard
from soar.export import to_robustbench
from soar.export.robustbench import is_standard
from soar.threat import L2, Linf, Threat
from tests.evaluation.test_assessment import diagnosis

# model_info/cifar10/Linf/Rice2020Overfitting.json in RobustBench's repository.
RICE = (
    '{"link": "https://arxiv.org/abs/2002.11569",'
    ' "name": "Overfitting in adversarially robust deep learning",'
    ' "authors": "Leslie Rice, Eric Wong, J. Zico Kolter", "additional_data": false,'
    ' "number_forward_passes": 1, "dataset": "cifar10", "venue": "ICML 2020",'
    ' "architecture": "WideResNet-34-20", "eps": "8/255", "clean_acc": "85.34", "reported": "58",'
    ' "autoattack_acc": "53.42"}'
)
PAPER: dict[str, Any] = {
    "link": "https://arxiv.org/abs/2002.11569",
    "name": "Overfitting in adversarially robust deep learning",
    "authors": "Leslie Rice, Eric Wong, J. Zico Kolter",
    "additional_data": False,
    "venue": "ICML 2020",
    "architecture": "WideResNet-34-20",
    "reported": "58",
}


def result(planned: Planned, left: int, count: int) -> AttackResult:
    robust, passes = torch.arange(count) < left, torch.zeros(count, dtype=torch.int64)
    label = planned.attack.label
    return AttackResult(label=label, **describe(planned), robust=robust, forward=passes, backward=passes)


def measured(
    count: int = 10_000,
    *,
    data: str = "cifar10 (test)",
    threat: Threat | None = None,
    plan: list[Planned] | None = None,
    more: int = 0,
    **changes: Any,
) -> Assessment:
    """An assessment with Rice's accuracies: 85.34% clean; each attack leaves ten fewer, down to 53.42%."""
    clean, left = count * 8534 // 10_000, count * 5342 // 10_000
    chosen = standard() if plan is None else plan
    last = len(chosen) - 1 - more
    attacks = [result(one, left + 10 * (last - place), count) for place, one in enumerate(chosen)]
    found = Assessment(
        model="net",
        data=data,
        threat=threat or Linf("8/255"),
        seed=0,
        index=torch.arange(count),
        labels=torch.zeros(count, dtype=torch.int64),
        correct=torch.arange(count) < clean,
        attacks=tuple(attacks),
    )
    return replace(found, **changes)


def test_the_file_is_the_one_in_robustbenchs_repository(tmp_path: Path) -> None:
    written = to_robustbench(measured(), tmp_path / "Rice2020Overfitting.json", **PAPER)
    stored = json.loads((tmp_path / "Rice2020Overfitting.json").read_text())
    assert stored == json.loads(RICE) and list(stored) == list(json.loads(RICE))
    assert written.missing == () and written.notes == () and written.folder == "model_info/cifar10/Linf"
    assert str(written) == (
        f"{tmp_path / 'Rice2020Overfitting.json'}: 85.34% clean, 53.42% under AutoAttack; belongs in"
        " model_info/cifar10/Linf"
    )


def test_what_nobody_knows_is_null_and_listed(tmp_path: Path) -> None:
    written = to_robustbench(measured(threat=L2("0.5")), tmp_path / "x.json", name="Ünser Titel")
    text = (tmp_path / "x.json").read_text()
    assert json.loads(text) == {
        "link": None,
        "name": "Ünser Titel",
        "authors": None,
        "additional_data": None,
        "number_forward_passes": 1,
        "dataset": "cifar10",
        "venue": None,
        "architecture": None,
        "eps": "0.5",
        "clean_acc": "85.34",
        "reported": None,
        "autoattack_acc": "53.42",
    }
    assert text.startswith('{\n  "link": null,\n  "name": "Ünser Titel",') and text.endswith("}\n")
    assert written.folder == "model_info/cifar10/L2"
    assert str(written).splitlines()[-1] == (
        "fill in: link, authors, additional_data, venue, architecture, reported"
    )


def test_fewer_images_are_said_in_the_file(tmp_path: Path) -> None:
    written = to_robustbench(measured(1_000), tmp_path / "x.json", **PAPER)
    text = (
        "Evaluated on 1,000 of 10,000 test images; the 95% interval of the robust accuracy is 50.3 to 56.5."
    )
    assert json.loads((tmp_path / "x.json").read_text())["footnote"] == text
    assert f"note: {text}" in str(written)


def test_imagenet_has_its_own_radius_and_number_of_images(tmp_path: Path) -> None:
    found = measured(5_000, data="folder:val (test)", threat=Linf("4/255"))
    written = to_robustbench(found, tmp_path / "x.json", dataset="imagenet", **PAPER)
    assert written.notes == () and written.folder == "model_info/imagenet/Linf"
    assert written.entry["dataset"] == "imagenet" and written.entry["eps"] == "4/255"


def test_attacks_after_autoattack_do_not_count(tmp_path: Path) -> None:
    found = measured(plan=[*standard(), Planned(PGD(steps=500))], more=1)
    assert found.worst_case < 0.5342
    assert to_robustbench(found, tmp_path / "x.json").entry["autoattack_acc"] == "53.42"


def test_doubt_about_gradients_is_noted(tmp_path: Path) -> None:
    written = to_robustbench(measured(diagnosis=diagnosis("masked")), tmp_path / "x.json", **PAPER)
    assert "note: the checks for gradient masking call the model masked" in str(written)
    assert "footnote" not in written.entry


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (measured(plan=[Planned(PGD(steps=20))]), "attacks: got PGD-20, expected AutoAttack"),
        (measured(plan=standard()[:3], more=-1), "expected AutoAttack with its own budgets"),
        (measured(plan=standard(steps=50)), "evaluate with --attacks standard"),
        (measured(plan=standard(queries=100)), "evaluate with --attacks standard"),
        (measured(plan=[Planned(APGD()), *standard()[1:]]), "evaluate with --attacks standard"),
        (measured(plan=[Planned(Square(queries=9)), *standard()]), "and nothing before it"),
        (measured(attacks=()), "attacks: got none"),
        (measured(data="cifar10 (validation)"), r"got cifar10 \(validation\), expected test images"),
        (
            measured(data="svhn (test)"),
            "got 10,000 images of svhn, expected test images of cifar10, ci",
        ),
        (measured(10_001), "got 10,001 images of cifar10"),
        (
            measured(threat=Linf("4/255")),
            "got linf 4/255, expected linf 8/255 or l2 0.5, RobustBench's",
        ),
        (
            measured(data="cifar100", threat=L2("0.5")),
            "got l2 0.5, expected linf 8/255, RobustBench's",
        ),
        (measured(notes=(Note("random", "random"),)), "the model is randomized"),
        (measured(notes=(Note("state", "state"),)), "the model is randomized"),
    ],
)
def test_what_robustbench_does_not_take_is_refused(found: Assessment, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said) as caught:
        to_robustbench(found, tmp_path / "x.json", **PAPER)
    assert "\n" not in str(caught.value) and not (tmp_path / "x.json").exists()


def test_what_the_suite_leaves_behind_is_recognized(tmp_path: Path) -> None:
    data = torch.tensor([[[[0.9, 0.1]]], [[[0.45, 0.55]]]]), torch.tensor([0, 1])
    found = evaluate(nn.Flatten(), data, Linf("0.5"), "standard", check=False)
    found.save(tmp_path / "assessment.json")
    assert is_standard(found) and is_standard(Assessment.load(tmp_path / "assessment.json"))
    assert not is_standard(evaluate(nn.Flatten(), data, Linf("0.5"), "auto", check=False))


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("mine")
    with pytest.raises(UserError, match="exists"):
        to_robustbench(measured(), tmp_path / "x.json")
    assert (tmp_path / "x.json").read_text() == "mine"
