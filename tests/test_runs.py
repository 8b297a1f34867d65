from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from soar import checkpoints, recipes, runs
from soar.checkpoints import Snapshot
from soar.errors import UserError
from soar.locks import run_lock
from soar.objectives import Adversarial
from soar.threat import Linf


def test_a_run_folder_holds_the_resolved_recipe_and_the_environment(tmp_path: Path) -> None:
    recipe = recipes.load("demo-robust", ["--epochs", "1", "--eps", "8/255"])
    planned = runs.plan(recipe, tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()
    planned.create()
    found = runs.find(tmp_path / "a" / "b")
    assert found == runs.find(str(tmp_path / "a" / "b")) and found.recipe == recipe
    stored = json.loads((found.path / "environment.json").read_text())
    assert stored["torch"] == torch.__version__ and "soar" in stored


def test_a_run_builds_what_its_recipe_says(tmp_path: Path) -> None:
    run = runs.plan(recipes.load("demo-robust", ["--objective.steps", "3"]), tmp_path / "r")
    data = run.data()
    assert data.shape == (1, 28, 28) and run.threat() == Linf("0.1")
    model = run.model(len(data.classes), data.shape)
    objective = run.objective(model)
    assert isinstance(objective, Adversarial) and objective.attack.steps == 3
    again = run.model(len(data.classes), data.shape)
    assert all(map(torch.equal, model.state_dict().values(), again.state_dict().values()))


def test_run_folders_are_never_overwritten(tmp_path: Path) -> None:
    recipe = recipes.load("demo-robust")
    runs.plan(recipe, tmp_path / "r").create()
    with pytest.raises(UserError, match=r"holds a run already; go on with it \(soar train --resume"):
        runs.plan(recipe, tmp_path / "r")


def test_of_two_that_chose_the_same_folder_the_second_writes_nothing(tmp_path: Path) -> None:
    ours, theirs = (
        runs.plan(recipes.load("demo-robust", ["--seed", seed]), tmp_path / "r") for seed in ("1", "2")
    )
    ours.create()
    before = {path: path.read_bytes() for path in ours.path.iterdir()}
    with pytest.raises(UserError, match="holds a run already"):
        theirs.create()
    assert {path: path.read_bytes() for path in ours.path.iterdir()} == before
    assert runs.find(tmp_path / "r").recipe.seed == 1


def test_nothing_is_written_while_another_process_trains(tmp_path: Path) -> None:
    planned = runs.plan(recipes.load("demo-robust"), tmp_path)
    with run_lock(tmp_path), pytest.raises(UserError, match="another process is training here; wait for it"):
        planned.create()
    assert not list(tmp_path.iterdir())


def test_an_empty_recipe_does_not_block_the_folder(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text("")
    runs.plan(recipes.load("demo-robust"), tmp_path).create()
    assert runs.find(tmp_path).recipe == recipes.load("demo-robust")
    (tmp_path / "recipe.toml").write_text("")
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(UserError, match="holds a run already"):
        runs.plan(recipes.load("demo-robust"), tmp_path)


def test_a_checkpoint_can_be_chosen_by_name(tmp_path: Path) -> None:
    runs.plan(recipes.load("demo-robust"), tmp_path).create()
    text = r"RUN: got .* which holds no usable weights; train it first \(soar train --resume"
    with pytest.raises(UserError, match=text):
        runs.find(tmp_path).weights()
    for step in (3, 7):
        checkpoints.save(tmp_path, Snapshot({"w": torch.zeros(1)}, None, {}, {"step": step}))
    assert runs.find(tmp_path).weights().step == 7
    assert runs.find(tmp_path, "step-00000003").weights().step == 3
    with pytest.raises(UserError, match=r"unknown checkpoint 'step-3' \(flag --checkpoint\); did you mean"):
        runs.find(tmp_path, "step-3").weights()


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not a run folder, there is no recipe\.toml"):
        runs.find(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be written \(Not a directory\); choose another run"):
        runs.plan(recipes.load("demo-robust"), tmp_path / "file" / "r").create()


def test_free_paths_count_up(tmp_path: Path) -> None:
    for expected in ("name", "name-2", "name-3"):
        path = runs.free_path("name", tmp_path)
        assert path == tmp_path / expected
        path.mkdir()
