"""Every network of every table: its recipe is what the contract says, and it can be built."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from soar.experiments.planning.experiments import TABLES, experiment
from soar.experiments.planning.networks import NAMES, network, with_weights
from soar.experiments.planning.scales import SCALES

from soar import recipes
from soar.errors import UserError
from soar.runs import Run

SMALL, PAPER, SMOKE = SCALES["small"], SCALES["paper"], SCALES["smoke"]


def test_small_networks_are_what_was_agreed() -> None:
    wanted = {
        "adv": {"name": "adversarial", "steps": 10, "step_size": "2/255"},
        "trades": {"name": "trades", "beta": 9, "steps": 10},
        "mart": {"name": "mart", "beta": 9, "steps": 10},
        "mma": {"name": "mma", "max_margin": "32/255", "steps": 7, "bisections": 7},
        "foar": {"name": "foar"},
        "soar": {"name": "soar", "product": "difference", "start": "pgd-1", "step": 0.5, "scale": 1 / 64},
    }
    soar = {"name": "soar", "product": "difference", "step": 0.5, "scale": 1 / 64}
    wanted["soar-zero"] = {**soar, "start": "zero", "penalty_share": 1.0}
    wanted["soar-rand"] = {**soar, "start": "random"}
    for name, objective in wanted.items():
        found = network(name, SMALL, 0)
        assert found.recipe.objective == objective
        assert (found.recipe.training.epochs, found.recipe.training.eps_warmup_epochs) == (4, 1.0)
        assert found.start is not None and found.start.name == "standard"
        assert found.recipe.model == recipes.load("cifar10-soar-small").model


def test_the_small_standard_network_is_the_shipped_recipe() -> None:
    shipped = recipes.load("cifar10-standard-small").as_table()
    ours = network("standard", SMALL, 0).recipe.as_table()
    assert {**ours, "description": ""} == {**shipped, "description": ""}


def test_sweeps_are_shorter_at_small_scale_and_whole_in_the_paper() -> None:
    found = network("mma-margin-20", SMALL, 0).recipe
    assert found.objective["max_margin"] == "20/255"
    assert (found.training.epochs, found.training.eps_warmup_epochs) == (1, 0.25)
    assert network("trades-beta-9", PAPER, 0).key == network("trades", PAPER, 0).key
    assert network("mma-margin-32", PAPER, 0).key == network("mma", PAPER, 0).key
    assert network("mart-beta-0.5", PAPER, 0).recipe.objective["beta"] == 0.5


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
    found, recipe = network(name, PAPER, 0), recipes.load(shipped)
    assert (found.start is None) == (recipe.training.start_from is None)
    # The cache decides where the weights are that it starts from.
    expected = recipes.load(shipped, ["--start_from", "null"]).as_table()
    assert {**found.recipe.as_table(), "description": ""} == {**expected, "description": ""}


def test_in_the_paper_only_regularized_networks_start_from_another() -> None:
    starts = {
        name: network(name, PAPER, 0).start for name in ("adv", "trades", "mart", "mma", "llr", "wide-adv")
    }
    assert set(starts.values()) == {None}
    starting = [
        network(name, PAPER, 0).start for name in ("soar", "foar-zero", "cnn6-soar", "cure", "svhn-soar")
    ]
    assert [one.name for one in starting if one] == [
        "standard",
        "standard",
        "cnn6-standard",
        "resnet18-standard",
        "svhn-standard",
    ]


def test_a_start_is_another_network_of_the_same_kind_and_seed() -> None:
    for name in NAMES:
        for scale in SCALES.values():
            found = network(name, scale, 3)
            if found.start is not None:
                assert found.start.recipe.model == found.recipe.model
                assert found.start.recipe.data.name == found.recipe.data.name
                assert found.start.recipe.seed == found.recipe.seed == 3


def test_sources_have_other_seeds() -> None:
    assert network("source-resnet", SMALL, 2).key == network("standard", SMALL, 1002).key
    assert network("source-wide", SMALL, 0).recipe.model["name"] == "wide_resnet"
    assert network("source-wide", PAPER, 0).recipe.model["depth"] == 34
    assert network("svhn-source", PAPER, 0).recipe.data.name == "svhn"


def test_keys_are_different_where_anything_differs_and_stable() -> None:
    keys = {network(name, PAPER, seed).key for name in NAMES for seed in (0, 1)}
    same = {"trades-beta-9", "mart-beta-9", "mma-margin-32"}
    assert len(keys) == 2 * (len(NAMES) - len(same))
    # What a change of this number costs: every network that anyone has trained is trained again.
    assert network("standard", SMALL, 0).key == "5ae858a3fb2bc159"
    assert network("soar", SMALL, 0).key != network("soar", SMALL, 1).key


def test_every_network_of_every_table_is_named() -> None:
    needed = {
        name
        for table in TABLES
        for row in experiment(table, PAPER).rows
        for name in (row.network, *(source for one in row.columns.values() for source in one.sources))
        if name is not None
    }
    assert needed == set(NAMES)


@pytest.mark.parametrize("scale", SCALES)
def test_every_recipe_builds_its_model_and_objective(scale: str) -> None:
    models: dict[str, object] = {}
    for name in NAMES:
        recipe = network(name, SCALES[scale], 0).recipe
        shape = (1, 28, 28) if recipe.data.name == "fashion-mnist-sample" else (3, 32, 32)
        run = Run(Path(name), recipe)
        text = json.dumps(recipe.model, sort_keys=True)
        if text not in models:
            models[text] = run.model(10, shape)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* on a model with BatchNorm")
            objective = run.objective(models[text])  # type: ignore[arg-type]
        assert type(objective).__name__.lower() == recipe.objective["name"].partition("-")[0]
        assert objective.model is models[text]


def test_weights_of_a_users_own_replace_training(tmp_path: Path) -> None:
    file = tmp_path / "mine.safetensors"
    file.write_bytes(b"one")
    wide = network("wide-trades", SMALL, 0)
    mine = with_weights(wide, file)
    assert (mine.start, mine.weights) == (None, str(file))
    first = mine.key
    file.write_bytes(b"other")
    assert len({first, with_weights(wide, file).key, wide.key}) == 3


@pytest.mark.parametrize("name", ["missing.safetensors", "."])
def test_weights_that_are_no_file_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--weights: got .* expected a \.safetensors file"):
        with_weights(network("wide-adv", SMALL, 0), tmp_path / name)


def test_an_unknown_network_is_a_mistake() -> None:
    with pytest.raises(UserError, match=r"saor.*soar"):
        network("saor", SMALL, 0)
