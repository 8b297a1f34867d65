from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from soar import recipes, runs
from soar.errors import UserError
from soar.experiments.cache import Cache
from soar.experiments.sweep import check, experiment, parse
from soar.experiments.work import prepare
from soar.experiments.worker import perform
from tests.experiments.tiny import FLAGS, recipe


def test_points_are_the_product_of_all_grids() -> None:
    sweep = experiment("demo-robust", parse(["objective.steps=1,2", "lr=0.1,0.2"]))
    made = {
        name: (one.recipe.objective["steps"], one.recipe.training.lr) for name, one in sweep.networks.items()
    }
    assert made == {
        f"objective.steps={steps}, training.lr={lr}": (steps, lr) for steps in (1, 2) for lr in (0.1, 0.2)
    }
    assert [row.name for row in sweep.rows] == list(made)


def test_one_seed_is_called_what_it_is() -> None:
    grid = parse(["objective.steps=1"])
    assert "One seed does not show how much is chance" in experiment("demo-robust", grid).caution
    assert experiment("demo-robust", grid, seeds=2).caution == ""


def test_networks_have_the_fields_the_flags_and_the_seeds() -> None:
    flags = ("--epochs", "3", "--seed", "5")
    sweep = experiment("demo-robust", parse(["objective.steps=2"]), flags=flags, seeds=3)
    made = [sweep.networks["objective.steps=2"].with_seed(seed).recipe for seed in range(3)]
    assert [one.seed for one in made] == [5, 6, 7]
    assert {(one.training.epochs, one.objective["steps"]) for one in made} == {(3, 2)}


@pytest.mark.parametrize(
    "texts, message",
    [
        ([], "--grid is missing"),
        (["objective.beta"], "expected FIELD=VALUE,VALUE"),
        (["=1"], "expected FIELD=VALUE,VALUE"),
        (["objective.beta="], "none empty"),
        (["objective.beta=1,,2"], "none empty"),
        (["objective.beta=1,1"], "every value once"),
        (["lr=1", "training.lr=2"], "training.lr has a grid already"),
        (["seed=1,2"], "--seeds N"),
        (["epoch=1,2"], "did you mean '--epochs'"),
        (["steps=1,2"], "--steps is not clear"),
    ],
)
def test_bad_grids_get_one_line(texts: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        parse(texts)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "grid, message",
    [
        ("objective.stps=1", "did you mean 'steps'"),
        ("objective.steps=many", "objective.steps: got 'many', expected `int`"),
        ("objective.steps=-1", "objective.steps: got -1"),
        ("epochs=1,x", r"training.epochs: got 'x', expected `int \| float`"),
        ("objective=advresarial", "did you mean 'adversarial'"),
        ("model.widht=4", "did you mean 'width'"),
        ("eps=8", "threat.eps: got 8.0 for linf"),
    ],
)
def test_values_that_training_would_refuse_are_refused_before_it(grid: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        experiment("demo-robust", parse([grid]))


def test_every_recipe_can_be_checked_without_its_model() -> None:
    for name in recipes.names():
        check(recipes.load(name))


def test_a_sweep_has_a_largest_number_of_trainings() -> None:
    values = ",".join(f"0.{number}1" for number in range(100))
    grid = parse([f"lr={values}", f"weight_decay={values}"])
    with pytest.raises(UserError, match="got 20,000 training runs, expected at most 10,000 in a sweep"):
        experiment("demo-robust", grid, seeds=2)


def test_each_point_and_seed_is_one_training_of_its_own(tmp_path: Path) -> None:
    sweep = experiment("demo-robust", parse(["objective.steps=1,2,3"]), seeds=2)
    jobs = prepare([sweep], Cache(tmp_path)).plan.todo
    assert len({job.key for job in jobs}) == 6
    assert {job.title for job in jobs[:2]} == {
        "train objective.steps=1, seed 0",
        "train objective.steps=1, seed 1",
    }
    assert all(job.seconds > 0 and job.kind == "train" for job in jobs)


def test_a_start_is_known_by_its_weights_and_not_by_its_path(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")

    def key(weights: Path) -> str:
        flags = ("--start_from", str(weights))
        sweep = experiment("demo-robust", parse(["objective.steps=1"]), flags=flags)
        (job,) = prepare([sweep], cache).plan.todo
        return job.key

    first, copy, other = (tmp_path / f"{name}.safetensors" for name in "abc")
    save_file({"w": torch.zeros(2)}, first)
    save_file({"w": torch.zeros(2)}, copy)
    save_file({"w": torch.ones(2)}, other)
    assert key(first) == key(copy) != key(other)
    save_file({"w": torch.ones(2)}, first)
    assert key(first) == key(other), "other weights under the old name are other weights"


def test_a_training_from_weights_is_done_under_the_key_it_was_planned_under(tmp_path: Path) -> None:
    weights = tmp_path / "start.safetensors"
    begun = runs.plan(recipe(), tmp_path / "run")
    save_file(begun.model(10, (1, 28, 28)).state_dict(), weights)
    flags = (*FLAGS, "--start_from", str(weights))
    sweep = experiment("demo-standard", parse(["lr=0.1"]), flags=flags)
    cache = Cache(tmp_path / "cache")
    (job,) = prepare([sweep], cache).plan.todo
    perform(job, lambda _: None)
    assert cache.is_trained(job.key)
    assert prepare([sweep], cache).plan.todo == ()


def test_a_sweep_without_held_out_examples_is_refused() -> None:
    with pytest.raises(UserError, match=r"data\.validation: got 0"):
        experiment("demo-robust", parse(["objective.steps=1"]), flags=("--data.validation", "0"))
