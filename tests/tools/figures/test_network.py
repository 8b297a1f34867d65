from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from soar import recipes, runs
from soar.errors import UserError
from soar.recipes import Recipe
from tools.figures import network

TINY = [
    *(
        "--model.width",
        "4",
        "--max_steps",
        "4",
        "--batch_size",
        "32",
        "--epochs",
        "1",
    ),
    *("--data.validation", "100", "--validation.examples", "20", "--validation.steps", "2"),
    *("--guards.overfitting", "off"),
]


@pytest.fixture
def tiny_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train for four steps whatever the recipe says."""
    load = recipes.load

    def smaller(name: str | Path, flags: Sequence[str] = ()) -> Recipe:
        return load(name, [*flags, *([] if str(name).endswith(".toml") else TINY)])

    monkeypatch.setattr(recipes, "load", smaller)


@pytest.mark.usefixtures("tiny_recipe")
def test_a_network_is_trained_and_opened(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "mine"
    with network.trained(folder, mode="quiet") as run:
        found = network.open_network(run, 3)
    assert (folder / "recipe.toml").exists(), "a given folder is kept"
    assert found.name == "runs/mine" and found.data_name == "fashion-mnist-sample (test)"
    assert found.x.shape == (3, 1, 28, 28) and str(found.threat) == "linf 0.1"
    assert not found.model.training
    again = network.open_network(runs.find(folder), 3)
    assert torch.equal(again.model(again.x), found.model(found.x))


@pytest.mark.usefixtures("tiny_recipe")
def test_a_temporary_network_leaves_nothing_behind() -> None:
    with network.trained(None, mode="quiet") as run:
        assert run.path.exists()
    assert not run.path.exists()


@pytest.mark.usefixtures("tiny_recipe")
def test_a_folder_that_is_taken_is_refused(tmp_path: Path) -> None:
    with network.trained(tmp_path, mode="quiet"):
        pass
    with pytest.raises(UserError, match="holds a run already"), network.trained(tmp_path, mode="quiet"):
        pass


def test_an_l2_run_is_refused(tmp_path: Path) -> None:
    recipe = recipes.load("demo-standard", ["--threat.norm", "l2", "--threat.eps", "1"])
    with pytest.raises(UserError, match="was trained for l2 1; expected an linf threat"):
        network.open_network(runs.Run(tmp_path, recipe), 1)
