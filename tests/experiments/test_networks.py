"""Every network of every table: its recipe is what the contract says, and it can be built."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from soar import recipes
from soar.errors import UserError
from soar.experiments.experiment import Experiment, Network
from soar.experiments.loading import load, tables
from soar.runs import Run

SCALES = ("smoke", "small", "paper")


@cache
def table(name: str, scale: str) -> Experiment:
    return load(name, scale=scale)


@cache
def all_of(scale: str) -> dict[tuple[str, str], Network]:
    """Every training of every table, by table and name."""
    return {
        (name, network): training
        for name in tables()
        for network, training in table(name, scale).networks.items()
    }


def network(name: str, scale: str, seed: int = 0, of: str = "") -> Network:
    """A network by its name; sweeps have the same names, so that their table has to be given."""
    found = of or next(one for one, known in all_of(scale) if known == name)
    return table(found, scale).networks[name].with_seed(seed)


def test_small_networks_are_what_was_agreed() -> None:
    wanted = {
        "adv": {"name": "adversarial", "steps": 10, "step_size": "2/255"},
        "trades": {"name": "trades", "beta": 9, "steps": 10},
        "mart": {"name": "mart", "beta": 9, "steps": 10},
        "mma": {"name": "mma", "max_margin": "32/255", "steps": 7, "bisection_steps": 7},
        "foar": {"name": "foar"},
        "soar": {
            "name": "soar",
            "hvp": "finite-difference",
            "init": "pgd-1",
            "fd_step": 0.5,
            "loss_scale": 1 / 64,
        },
    }
    soar = {"name": "soar", "hvp": "finite-difference", "fd_step": 0.5, "loss_scale": 1 / 64}
    wanted["soar-zero"] = {**soar, "init": "zero", "penalty_eps_fraction": 1.0}
    wanted["soar-rand"] = {**soar, "init": "random"}
    for name, objective in wanted.items():
        found = network(name, "small")
        assert found.recipe.objective == objective
        assert (found.recipe.training.epochs, found.recipe.training.eps_warmup_epochs) == (4, 1.0)
        assert found.start == network("standard", "small")
        assert found.recipe.model == recipes.load("cifar10-soar-small").model


def test_the_small_standard_network_is_the_shipped_recipe() -> None:
    shipped = recipes.load("cifar10-standard-small").as_table()
    assert network("standard", "small").recipe.as_table() == {**shipped, "description": ""}


def test_sweeps_are_shorter_at_small_scale_and_whole_in_the_paper() -> None:
    found = network("20", "small", of="mma")
    assert (found.title, found.recipe.objective["max_margin"]) == ("MMA, margin 20", "20/255")
    assert (found.recipe.training.epochs, found.recipe.training.eps_warmup_epochs) == (1, 0.25)
    for name, best in (("trades", "9"), ("mart", "9"), ("mma", "32")):
        assert network(best, "paper", of=name).key == network(name, "paper").key
        assert table(name, "small").selects
    assert network("0.5", "paper", of="mart").recipe.objective["beta"] == 0.5


@pytest.mark.parametrize(
    ("name", "shipped"),
    [
        ("standard", "cifar10-standard"),
        ("adv", "cifar10-adversarial"),
        ("adv-l2", "cifar10-adversarial-l2"),
        ("trades", "cifar10-trades"),
        ("mart", "cifar10-mart"),
        ("mma", "cifar10-mma"),
        ("foar", "cifar10-foar"),
        ("soar", "cifar10-soar"),
        ("llr", "cifar10-llr"),
        ("svhn-standard", "svhn-standard"),
        ("svhn-soar", "svhn-soar"),
        ("svhn-adv", "svhn-adversarial"),
    ],
)
def test_paper_networks_are_the_shipped_recipes(name: str, shipped: str) -> None:
    found, recipe = network(name, "paper"), recipes.load(shipped)
    assert (found.start is None) == (recipe.training.start_from is None)
    # The cache decides where the weights are that it starts from.
    expected = recipes.load(shipped, ["--start_from", "null"]).as_table()
    assert found.recipe.as_table() == {**expected, "description": ""}


def test_in_the_paper_only_regularized_networks_start_from_another() -> None:
    for name in ("adv", "trades", "mart", "mma", "llr", "wide-adv"):
        assert network(name, "paper").start is None
    starts = {
        "soar": "standard",
        "foar-zero": "standard",
        "cnn6-soar": "cnn6-standard",
        "cure": "resnet18-standard",
        "wide-cure": "wrn28-standard",
        "svhn-soar": "svhn-standard",
    }
    for name, start in starts.items():
        assert network(name, "paper").start == network(start, "paper")


@pytest.mark.parametrize("scale", SCALES)
def test_a_start_is_another_network_of_the_same_kind_and_seed(scale: str) -> None:
    for of, name in all_of(scale):
        found = network(name, scale, 3, of)
        assert found.recipe.seed in (3, 1003) and found.recipe.training.start_from is None
        if found.start is not None:
            assert found.start.recipe.model == found.recipe.model
            assert found.start.recipe.data.name == found.recipe.data.name
            assert found.start.recipe.seed == found.recipe.seed == 3


def test_sources_have_other_seeds() -> None:
    assert network("source-resnet", "small", 2).key == network("standard", "small", 1002).key
    assert network("svhn-source", "small", 0).key == network("svhn-standard", "small", 1000).key
    assert network("source-wide", "small").recipe.model["name"] == "wide_resnet"
    assert network("source-wide", "paper").recipe.model["depth"] == 34
    assert network("svhn-source", "paper").recipe.data.name == "svhn"


def test_a_name_stands_for_the_same_network_in_every_table() -> None:
    swept = ("trades", "mart", "mma")
    for scale in SCALES:
        found: dict[str, Network] = {}
        for (of, name), training in all_of(scale).items():
            if of not in swept or not name[0].isdigit():
                assert found.setdefault(name, training) == training


def test_keys_are_different_where_anything_differs_and_stable() -> None:
    of_all = {
        (name, of if name[0].isdigit() else ""): network(name, "paper", of=of).key
        for of, name in all_of("paper")
    }
    # TRADES and MART with beta 9 and MMA with margin 32 are those of the other tables.
    assert len(set(of_all.values())) == len(of_all) - 3
    # What a change of this number costs: every network that anyone has trained is trained again.
    assert network("standard", "small").key == "5f0feb543b21e298"
    assert network("soar", "small").key != network("soar", "small", 1).key


@pytest.mark.parametrize("scale", SCALES)
def test_every_recipe_builds_its_model_and_objective(scale: str) -> None:
    models: dict[str, object] = {}
    for name, training in all_of(scale).items():
        recipe = training.recipe
        shape = (1, 28, 28) if recipe.data.name == "fashion-mnist-sample" else (3, 32, 32)
        run = Run(Path(*name), recipe)
        text = json.dumps(recipe.model, sort_keys=True)
        if text not in models:
            models[text] = run.model(10, shape)
        objective = run.objective(models[text])  # type: ignore[arg-type]
        assert type(objective).__name__.lower() == recipe.objective["name"].partition("-")[0]
        assert objective.model is models[text]


def test_the_smoke_scale_takes_seconds() -> None:
    for training in all_of("smoke").values():
        recipe = training.recipe
        if recipe.data.name == "fashion-mnist-sample":
            standard = recipe.objective["name"] == "standard"
            assert recipe.training.max_steps == (30 if standard else 3)
            assert recipe.model.get("width", 4) == 4 and recipe.model.get("widen_factor", 1) == 1
            assert recipe.objective.get("steps", 2) == recipe.objective.get("bisection_steps", 2) == 2
        else:
            assert recipe.model["name"] == "wide_resnet", "only WideResNets keep their size"


def test_weights_of_a_users_own_replace_training(tmp_path: Path) -> None:
    file = tmp_path / "mine.safetensors"
    file.write_bytes(b"one")
    wide = network("wide-trades", "small")
    mine = wide.with_weights(file)
    assert (mine.start, mine.weights) == (None, str(file))
    first = mine.key
    file.write_bytes(b"other")
    assert len({first, wide.with_weights(file).key, wide.key}) == 3


@pytest.mark.parametrize("name", ["missing.safetensors", "."])
def test_weights_that_are_no_file_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--weights: got .* expected a \.safetensors file"):
        network("wide-adv", "small").with_weights(tmp_path / name)
