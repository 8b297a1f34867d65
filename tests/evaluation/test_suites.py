from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from soar import checkpoints, recipes, runs
from soar.attacks import APGD, ATTACKS, FAB, FGSM, PGD, Planned, Square, Transfer
from soar.errors import UserError
from soar.evaluation import attack, evaluate
from soar.evaluation.suites import SUITES, Wanted, resolve
from soar.registry import Entry
from soar.threat import L1


def planned(attacks: Wanted) -> list[object]:
    return [one.attack for one in resolve(attacks)]


@pytest.mark.parametrize("entry", list(SUITES), ids=lambda entry: entry.name)
def test_suites_are_found_by_name_and_described(entry: Entry[list[Planned]]) -> None:
    assert resolve(entry.name) == entry.build()
    assert entry.description.endswith(".")


def test_the_standard_suite_is_autoattack() -> None:
    plan = resolve("standard")
    assert [one.attack.label for one in plan] == ["APGD-CE", "APGD-T", "FAB-T", "Square"]
    assert all(one.survivors_only and one.samples == 1 for one in plan)
    first, targeted, fab, square = (one.attack for one in plan)
    assert first == APGD(steps=100, restarts=1, loss="ce")
    assert targeted == APGD(steps=100, loss="dlr", targets=9)
    assert fab == FAB(steps=100, targets=9, restarts=1, alpha=0.1, eta=1.05, beta=0.9)
    assert square == Square(queries=5000, p=0.8, restarts=1)


def test_the_standard_suite_in_l1_is_autoattack() -> None:
    plan = resolve("standard", "l1")
    assert [one.attack.label for one in plan] == ["APGD-CE x5", "APGD-T 5 targets", "FAB-T", "Square"]
    assert all(one.survivors_only and one.samples == 1 for one in plan)
    assert [one.attack for one in plan] == [
        APGD(steps=100, restarts=5, loss="ce"),
        APGD(steps=100, restarts=1, loss="dlr", targets=5),
        *planned("standard")[2:],
    ]
    assert [one.attack for one in resolve("standard:steps=7,targets=2", "l1")][:3] == [
        APGD(steps=7, restarts=5),
        APGD(steps=7, loss="dlr", targets=2),
        FAB(steps=7, targets=2),
    ]


def test_the_fast_suites_in_l1_begin_as_autoattack_does() -> None:
    first = resolve("standard", "l1")[:2]
    assert resolve("fast", "l1") == first
    assert resolve("fast:steps=4", "l1")[0].attack == APGD(steps=20, restarts=5)
    auto = resolve("auto:queries=30", "l1")
    assert auto[:3] == [*first, Planned(Square(queries=30), survivors_only=True)]
    labels = [one.attack.label for one in auto if one.condition == "unsound"]
    assert labels == ["FAB-T", "Square"], "what has been run already is not run again"


def test_suites_follow_the_norm_of_the_threat() -> None:
    model, x = nn.Flatten(), torch.tensor([[[[0.9, 0.1]]], [[[0.45, 0.55]]]])
    y = torch.tensor([0, 1])
    found = evaluate(model, (x, y), L1("0.2"), "standard:steps=3,queries=4")
    assert [one.label for one in found.attacks][:2] == ["APGD-CE 3 steps x5", "APGD-T 5 targets 3 steps"]
    assert found.worst_case == 0.5
    within = evaluate(model, (x, y), L1("0.2"), "standard:steps=3,queries=4", budget="1m")
    assert [one.label for one in within.attacks] == [one.label for one in found.attacks]
    assert attack(model, x, y, [L1("0.2"), L1("1")], "fast:steps=1")[1].robust_accuracy == 0


def test_budgets_of_suites_are_options() -> None:
    plan = planned("standard:steps=7,targets=2,queries=50")
    assert plan == [
        APGD(steps=7),
        APGD(steps=7, loss="dlr", targets=2),
        FAB(steps=7, targets=2),
        Square(queries=50),
    ]
    assert [one.samples for one in resolve("rand:samples=3")] == [3, 3]
    with pytest.raises(UserError, match="unknown option of standard 'step'"):
        resolve("standard:step=7")
    with pytest.raises(UserError, match=r"attack\.samples: got 0, expected at least 1"):
        resolve("rand:samples=0")


def test_the_papers_attacks_run_alone() -> None:
    plan = resolve("paper")
    assert not any(one.survivors_only for one in plan)
    labels = {one.attack.label for one in plan}
    assert labels >= {"FGSM", "PGD-20", "PGD-100", "PGD-200", "PGD-1000", "PGD-20 x50", "APGD-CE", "APGD-T"}
    assert labels >= {"FAB-T", "Square"} and any(label.startswith("SimBA") for label in labels)


def test_attacks_are_written_as_text() -> None:
    assert planned("fgsm") == [FGSM()]
    text = "pgd:steps=7,step_size=2/255,loss=dlr,random_start=false"
    assert planned(text) == [PGD(steps=7, step_size="2/255", loss="dlr", random_start=False)]
    assert planned([PGD(steps=3), "fgsm"]) == [PGD(steps=3), FGSM()]
    kept = Planned(PGD(steps=3), survivors_only=True)
    assert resolve([kept, "fgsm"]) == [kept, Planned(FGSM())]


def test_a_transfer_opens_the_run_of_its_source(tmp_path: Path) -> None:
    recipe = recipes.load("demo-robust", ["--model", "cnn6", "--model.width", "2"])
    run = runs.plan(recipe, tmp_path / "other")
    run.create()
    data = run.data()
    weights = {name: torch.ones_like(x) for name, x in run.model(10, data.shape).state_dict().items()}
    checkpoints.save(run.path, checkpoints.Snapshot(weights, None, {}, {"step": 1}))
    (attack,) = planned(f"transfer:source={run.path},steps=3,step_size=2/255")
    assert isinstance(attack, Transfer) and attack.label == "PGD-3 from other"
    assert attack.attack == PGD(steps=3, step_size="2/255")
    assert all(x.eq(1).all() for x in attack.source.state_dict().values())
    assert ATTACKS["transfer"].description == "PGD on the model of another run, shown to this one."


@pytest.mark.parametrize(
    "text, message",
    [
        ("pdg", r"unknown attack 'pdg' \(flag --attacks\); did you mean 'pgd'"),
        ("pgd:stps=3", r"unknown option of PGD 'stps' .* did you mean 'steps'"),
        ("pgd:steps=three", "attack.steps: got 'three', expected `int`"),
        ("pgd:steps", "got 'steps' in 'pgd:steps', expected option=value"),
        ("pgd:steps=0", "attack.steps: got 0, expected at least 1"),
        ("transfer", "attack.source is missing; transfer requires it"),
    ],
)
def test_misspelled_attacks_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve(text)


def test_twice_the_same_attack_is_refused() -> None:
    with pytest.raises(UserError, match="got 'FGSM' more than once"):
        resolve(["quick", "fgsm"])
    with pytest.raises(UserError, match="got none"):
        resolve([])
