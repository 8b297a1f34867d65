from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from soar import recipes, runs
from soar.errors import UserError
from soar.paper.theory import subject as theory
from soar.recipes import Recipe

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
    with theory.trained(folder, mode="quiet") as run:
        found = theory.open_subject(run, 3)
    assert (folder / "recipe.toml").exists(), "a given folder is kept"
    assert found.name == "runs/mine" and found.data_name == "fashion-mnist-sample (test)"
    assert found.x.shape == (3, 1, 28, 28) and str(found.threat) == "linf 0.1"
    assert not found.model.training
    again = theory.open_subject(runs.find(folder), 3)
    assert torch.equal(again.loss(again.y)(again.x), found.loss(found.y)(found.x))


@pytest.mark.usefixtures("tiny_recipe")
def test_a_temporary_network_leaves_nothing_behind() -> None:
    with theory.trained(None, mode="quiet") as run:
        assert run.path.exists()
    assert not run.path.exists()


@pytest.mark.usefixtures("tiny_recipe")
def test_a_folder_that_is_taken_is_refused(tmp_path: Path) -> None:
    with theory.trained(tmp_path, mode="quiet"):
        pass
    with pytest.raises(UserError, match="holds a run already"), theory.trained(tmp_path, mode="quiet"):
        pass


def test_an_l2_run_is_refused(tmp_path: Path) -> None:
    recipe = recipes.load("demo-standard", ["--threat.norm", "l2", "--threat.eps", "1"])
    with pytest.raises(UserError, match="was trained for l2 1; tightness is about linf threats"):
        theory.open_subject(runs.Run(tmp_path, recipe), 1)


def test_the_loss_of_a_confident_network_keeps_its_derivatives() -> None:
    from tests.paper.theory.quadratics import quadratic_subject

    linear = torch.nn.Linear(4, 2, bias=False)
    model = torch.nn.Sequential(torch.nn.Flatten(), linear)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[20.0] * 4, [0.0] * 4]))
    base = quadratic_subject(0.1, 1.0)
    found = theory.Subject("", "", model, base.threat, base.x.float(), base.y, base.index)
    x = base.x[:1].float().requires_grad_()
    (slope,) = torch.autograd.grad(found.loss(base.y[:1])(x).sum(), x)
    # p of the wrong class is e^-40, which 1 - p of the right one cannot hold in single precision.
    torch.testing.assert_close(slope.flatten(), torch.full((4,), -20 * 4.248354255291589e-18))
