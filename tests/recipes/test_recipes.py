from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from soar import models, recipes, runs
from soar.bounds import propagate
from soar.data.catalog import DATASETS
from soar.errors import UserError
from soar.objectives import OBJECTIVES
from soar.recipes.recipe import Recipe, from_table, read, write
from soar.threat import L1, threat
from soar.training.schedules import lr_factor

IMAGES = {"cifar10": (3, 32, 32), "svhn": (3, 32, 32), "fashion-mnist-sample": (1, 28, 28)}


@pytest.fixture(params=recipes.names())
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return recipes.load(request.param)


def test_every_shipped_recipe_can_be_built(recipe: Recipe) -> None:
    assert len(recipe.description) > 20
    assert recipe.data.name in [entry.name for entry in DATASETS]
    options = dict(recipe.model)
    with torch.device("meta"):
        model = models.MODELS.build(options.pop("name"), options, 10, IMAGES[recipe.data.name])
    kept = dict(recipe.objective)
    limits = threat(recipe.threat.norm, recipe.threat.eps)
    objective = OBJECTIVES.build(kept.pop("name"), kept, model, limits, seed=recipe.seed)
    assert objective.threat == limits


@pytest.mark.parametrize("name", recipes.names())
def test_what_a_description_starts_from_is_what_training_starts_from(name: str) -> None:
    shipped = recipes.load(name)
    claimed = re.findall(r"\bfrom ([a-z0-9]+-[a-z0-9-]+)", shipped.description)
    start = shipped.training.start_from
    if start is None:
        assert not claimed, f"{name} starts from random weights"
        return
    assert set(claimed) == {Path(start).name}
    first = recipes.load(Path(start).name)
    assert start == str(runs.free_path(Path(start).name)), "the folder that `soar train` makes by default"
    assert first.model == shipped.model and first.data.name == shipped.data.name
    assert recipes.load(name, ["--start_from", "null"]).training.start_from is None


def test_the_network_of_the_certified_demo_has_bounds() -> None:
    recipe = recipes.load("demo-certified")
    assert recipe.objective == {"name": "ibp"} and recipe.training.start_from is None
    assert 0 < recipe.training.eps_warmup_epochs < recipe.training.epochs
    options, shape = dict(recipe.model), IMAGES[recipe.data.name]
    model = models.build(options.pop("name"), seed=recipe.seed, image_shape=shape, options=options).eval()
    limits = threat(recipe.threat.norm, recipe.threat.eps)
    with torch.no_grad():
        bounds = propagate(model, torch.full((2, *shape), 0.5), limits)
    assert bounds.last is not None, "differences of logits are bounded, not their ends"
    assert (bounds.interval.lower <= bounds.logits).all() and (bounds.logits <= bounds.interval.upper).all()


def test_every_shipped_recipe_is_written_and_read_back_the_same(recipe: Recipe, tmp_path: Path) -> None:
    write(recipe, tmp_path / "recipe.toml")
    assert recipes.load(tmp_path / "recipe.toml") == recipe


def test_the_papers_numbers_for_adversarial_training() -> None:
    recipe = recipes.load("cifar10-adversarial")
    training = recipe.training
    assert (training.epochs, training.batch_size, training.lr) == (200, 128, 0.1)
    assert (training.momentum, training.weight_decay) == (0.9, 2e-4)
    assert (training.schedule, training.milestones, training.decay) == ("step", (100, 150), 0.1)
    assert recipe.objective == {"name": "adversarial", "steps": 10, "step_size": "2/255"}
    assert recipe.model == {"name": "resnet10"} and recipe.threat.eps == "8/255"
    assert (recipe.data.crop_padding, recipe.data.flip) == (4, True)


@pytest.mark.parametrize("name", ["trades", "mart"])
def test_the_papers_numbers_for_trades_and_mart(name: str) -> None:
    recipe = recipes.load(f"cifar10-{name}")
    training = recipe.training
    assert (training.epochs, training.lr, training.weight_decay) == (120, 0.1, 2e-4)
    assert (training.milestones, training.decay) == ((75, 90, 100), 0.1)
    assert recipe.objective == {"name": name, "beta": 9.0, "steps": 10, "step_size": "0.007"}


@pytest.mark.parametrize(
    "name, images, changes",
    [
        ("cifar10-mma", 45_000, {20_000: 0.09, 30_000: 0.03, 40_000: 0.009}),
        ("cifar10-llr", 45_000, {80_000: 0.01, 88_000: 0.001, 96_000: 0.0001}),
    ],
)
def test_schedules_given_in_updates_change_the_rate_there(
    name: str, images: int, changes: dict[int, float]
) -> None:
    training = recipes.load(name).training
    an_epoch = images // training.batch_size
    for update, rate in changes.items():
        # Milestones are given in epochs, with two decimals.
        near = round(0.01 * an_epoch)
        after = training.lr * lr_factor(training, update + near, an_epoch)
        before = training.lr * lr_factor(training, update - near, an_epoch)
        assert after == pytest.approx(rate, rel=1e-6) and before > 1.5 * rate
    assert training.max_steps is not None and training.epochs * an_epoch >= training.max_steps


@pytest.mark.parametrize("name, epochs", [("cifar10-soar", 200), ("cifar10-foar", 200), ("svhn-soar", 130)])
def test_the_papers_numbers_for_regularized_training(name: str, epochs: int) -> None:
    recipe = recipes.load(name)
    training = recipe.training
    assert (training.epochs, training.batch_size, training.lr) == (epochs, 128, 0.004)
    assert (training.momentum, training.weight_decay) == (0.9, 2e-4)
    assert (training.schedule, training.milestones, training.decay) == ("step", (100,), 0.1)
    assert recipe.objective == {"name": "foar" if "foar" in name else "soar-paper"}
    assert recipe.model == {"name": "resnet10"} and recipe.threat.eps == "8/255"


@pytest.mark.parametrize("objective", ["soar", "foar", "trades", "mart", "mma", "cure", "llr"])
def test_small_recipes_differ_from_adversarial_training_in_objective_and_start(objective: str) -> None:
    ours = recipes.load(f"cifar10-{objective}-small").as_table()
    assert ours["training"].pop("start_from") == "runs/cifar10-standard-small"
    adversarial = recipes.load("cifar10-adversarial-small").as_table()
    assert ours.pop("objective")["name"] == objective
    assert {**adversarial, "objective": None, "description": None} == {
        **ours,
        "objective": None,
        "description": None,
    }


@pytest.mark.parametrize(
    "change, message",
    [
        ("[data]\nnam = 1", r"unknown field 'nam' \(r\.toml: data\.nam\); did you mean 'name'"),
        ("traning = 3", r"unknown field 'traning' .* did you mean 'training'"),
        (
            '[data]\nname = "x"\npadding_mode = "mirror"',
            "data.padding_mode: got 'mirror', expected one of zero, reflect",
        ),
        ("[training]\nepochs = 0", "training.epochs: got 0, expected `int` >= 1"),
        ("[guards]\noverfitting_drop = 2", r"guards\.overfitting_drop: got 2, expected `float` < 1"),
        ("[objective]\nsteps = 3", r"r\.toml: \[objective\] needs a name"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, change: str, message: str) -> None:
    table = read(recipes.FOLDER / "demo-robust.toml")
    (tmp_path / "change.toml").write_text(change)
    for key, value in read(tmp_path / "change.toml").items():
        if key in ("objective",):
            table[key] = value
        elif isinstance(value, dict):
            table.setdefault(key, {}).update(value)
        else:
            table[key] = value
    with pytest.raises(UserError, match=message) as caught:
        from_table(table, "r.toml")
    assert "\n" not in str(caught.value)


def test_a_missing_section_is_named() -> None:
    table = read(recipes.FOLDER / "demo-robust.toml")
    del table["training"]
    with pytest.raises(UserError, match="training"):
        from_table(table, "r.toml")


def test_files_that_are_no_recipes(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("= nonsense")
    with pytest.raises(UserError, match=r"a\.toml: not a TOML file"):
        recipes.load(tmp_path / "a.toml")
    with pytest.raises(UserError, match=r"b\.toml: cannot be read"):
        recipes.load(tmp_path / "b.toml")
    with pytest.raises(UserError, match=r"unknown recipe 'demo-robus' .* did you mean 'demo-robust'"):
        recipes.load("demo-robus")


def test_byte_order_marks_and_line_ends_of_windows_are_read(tmp_path: Path) -> None:
    shipped = (recipes.FOLDER / "demo-robust.toml").read_text()
    (tmp_path / "windows.toml").write_bytes(b"\xef\xbb\xbf" + shipped.replace("\n", "\r\n").encode())
    assert recipes.load(tmp_path / "windows.toml") == recipes.load("demo-robust")


@pytest.mark.parametrize(
    "content, message",
    [
        (b"# large\n" * 130_000, "got more than 1,000,000 bytes"),
        (b"x = " + b"[" * 5000, r"not a TOML file \(nested too deeply\)"),
        (b"x = " + b"9" * 5000, r"not a TOML file \(Exceeds the limit"),
        (b"\xff\xfe", "not a TOML file"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.toml").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read(tmp_path / "x.toml")


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(UserError, match=r"pipe\.toml: not a regular file"):
        read(tmp_path / "pipe.toml")


@pytest.mark.parametrize("name", [0, {}, [], True])
def test_a_name_is_text(name: object) -> None:
    table = read(recipes.FOLDER / "demo-robust.toml")
    with pytest.raises(UserError, match=r"^objective\.name: got .*, expected `str`"):
        from_table({**table, "objective": {"name": name}}, "r.toml")


def test_a_recipe_with_a_base_says_only_how_it_differs(tmp_path: Path) -> None:
    (tmp_path / "first.toml").write_text(
        'base = "demo-soar"\n[training]\nlr = 0.5\n[objective]\nname = "trades"\nbeta = 2.0\n'
    )
    (tmp_path / "second.toml").write_text('base = "first.toml"\nseed = 3\n[objective]\nbeta = 4.0\n')
    base, first, second = (
        recipes.load(name) for name in ("demo-soar", tmp_path / "first.toml", tmp_path / "second.toml")
    )
    assert first == replace(
        base, objective={"name": "trades", "beta": 2.0}, training=replace(base.training, lr=0.5)
    )
    assert second == replace(first, seed=3, objective={"name": "trades", "beta": 4.0})


@pytest.mark.parametrize(
    "base, message",
    [
        ('"demo-none"', r"unknown recipe 'demo-none'"),
        ("3", r"mine.toml: base: got 3, expected the name of a recipe or a .toml file"),
        ('"mine.toml"', r"mine.toml: base: got 'mine.toml', which is based on this recipe itself"),
        ('"gone.toml"', r"gone.toml: cannot be read"),
    ],
)
def test_a_base_that_is_no_other_recipe_is_refused(base: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(f"base = {base}\n")
    with pytest.raises(UserError, match=message):
        recipes.load(tmp_path / "mine.toml")


def test_a_recipe_may_be_trained_in_l1() -> None:
    recipe = recipes.load("demo-robust", ["--norm", "l1", "--eps", "3"])
    assert threat(recipe.threat.norm, recipe.threat.eps) == L1(3)
