from __future__ import annotations

import pytest
from soar.experiments.grid import Sweep, parse

from soar.errors import UserError


def test_places_are_the_product_of_all_grids() -> None:
    sweep = Sweep(recipe="demo-robust", grid=parse(["objective.steps=1,2", "lr=0.1,0.2"]))
    assert sweep.places() == [
        {"objective.steps": steps, "training.lr": lr} for steps in ("1", "2") for lr in ("0.1", "0.2")
    ]


def test_recipes_have_the_fields_the_flags_and_the_seeds() -> None:
    sweep = Sweep(
        recipe="demo-robust",
        flags=("--epochs", "3", "--seed", "5"),
        grid=parse(["objective.steps=2"]),
        seeds=3,
    )
    made = sweep.recipes({"objective.steps": "2"})
    assert [recipe.seed for recipe in made] == [5, 6, 7]
    assert {(recipe.training.epochs, recipe.objective["steps"]) for recipe in made} == {(3, 2)}


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
        ("epochs=1,x", "training.epochs: got 'x', expected `int`"),
        ("objective=advresarial", "did you mean 'adversarial'"),
        ("model.widht=4", "did you mean 'width'"),
        ("eps=8", "threat.eps: got 8.0 for linf"),
    ],
)
def test_values_that_training_would_refuse_are_refused_before_it(grid: str, message: str) -> None:
    sweep = Sweep(recipe="demo-robust", grid=parse([grid]))
    *_, last = sweep.places()
    with pytest.raises(UserError, match=message):
        sweep.recipes(last)


def test_every_objective_can_be_checked_without_its_model() -> None:
    from soar.experiments.grid import check

    from soar import recipes

    for name in recipes.names():
        check(recipes.load(name))


def test_a_sweep_has_a_largest_number_of_trainings() -> None:
    values = ",".join(f"0.{number}1" for number in range(100))
    grid = parse([f"lr={values}", f"weight_decay={values}"])
    assert len(Sweep(recipe="demo-robust", grid=grid).places()) == 10_000
    with pytest.raises(UserError, match="got 20,000 trainings, expected at most 10,000 in a sweep"):
        Sweep(recipe="demo-robust", grid=grid, seeds=2).places()


@pytest.mark.parametrize(
    "text, values",
    [
        ("[1,2],[2,3]", ("[1,2]", "[2,3]")),
        ("[[1,2],3], 4", ("[[1,2],3]", "4")),
        ("1], 2", ("1]", "2")),
        ("[1, 2", ("[1, 2",)),
    ],
)
def test_commas_in_brackets_belong_to_a_value(text: str, values: tuple[str, ...]) -> None:
    assert parse([f"milestones={text}"]) == {"training.milestones": values}
