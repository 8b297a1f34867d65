from __future__ import annotations

from pathlib import Path

import pytest

from soar import recipes, studies
from soar.errors import UserError
from soar.studies.study import from_table

TABLE = {
    "description": "two trainings",
    "recipe": "demo-soar",
    "fields": {"training": {"epochs": 2}, "seed": 3},
    "arms": [
        {"name": "standard", "recipe": "demo-standard"},
        {"name": "SOAR, h = 1", "start_from": "standard", "fields": {"objective": {"step": 1.0}}},
        {"name": "PGD", "fields": {"objective": {"name": "adversarial", "steps": 2}, "seed": 4}},
    ],
}


@pytest.mark.parametrize("name", studies.names())
def test_every_shipped_study_makes_valid_recipes_on_one_data_set(name: str, tmp_path: Path) -> None:
    study = studies.load(name)
    made = [study.recipe_of(arm, tmp_path) for arm in study.arms]
    assert len({recipe.data.name for recipe in made}) == 1
    assert len({recipe.threat for recipe in made}) == 1
    assert study.description


def test_an_arm_overrides_the_study_which_overrides_the_recipe() -> None:
    study = from_table(TABLE, "mine")
    standard, soar, pgd = (study.recipe_of(arm, Path("there")) for arm in study.arms)
    assert (standard.training.epochs, standard.seed, standard.objective["name"]) == (2, 3, "standard")
    assert standard.training.start_from is None
    plain = recipes.load("demo-soar").objective
    assert soar.objective == {**plain, "step": 1.0} and "step" not in plain
    assert soar.training.start_from == "there/standard"
    assert pgd.objective == {"name": "adversarial", "steps": 2} and pgd.seed == 4
    flagged = study.recipe_of(study.arms[2], Path("there"), ("--seed", "9", "--epochs", "1"))
    assert (flagged.seed, flagged.training.epochs) == (9, 1)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"arm": []}, "unknown field 'arm'.*'arms'"),
        ({"examples": 0}, "examples: got 0"),
        ({"arms": []}, "got no arms, expected at least one"),
        ({"transfer_from": "standrad"}, "transfer_from.*'standard'"),
        ({"arms": [{"name": "a"}, {"name": "A"}]}, "two arms called 'A'"),
        ({"arms": [{"name": "a", "start_from": "b"}, {"name": "b"}]}, "start_from of 'a'"),
        ({"arms": [{"name": "a", "recepe": "x"}]}, "'recepe'.*'recipe'"),
        ({"arms": [{"name": ".."}]}, r"mine: got an arm called '\.\.', expected a name"),
        ({"arms": [{"name": "!"}]}, "got an arm called '!', expected a name"),
        ({"arms": 3}, "mine: arms: got 3, expected `array`"),
        ({"arms": [3]}, "mine: arms: got 3, expected `object`"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused_in_one_line(change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        from_table({**TABLE, **change}, "mine")
    assert "\n" not in str(refused.value)


def test_a_wrong_field_of_an_arm_names_the_arm() -> None:
    study = from_table({**TABLE, "arms": [{"name": "one", "fields": {"training": {"epoch": 1}}}]}, "mine")
    with pytest.raises(UserError, match=r"arm 'one': training\.epoch"):
        study.recipe_of(study.arms[0], Path("there"))


def test_an_unknown_study_is_met_with_a_suggestion() -> None:
    with pytest.raises(UserError, match="did you mean 'starts'"):
        studies.load("start")
