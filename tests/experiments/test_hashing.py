from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from soar import recipes
from soar.experiments.hashing import digest, recipe_hash
from soar.objectives.adversarial import Adversarial
from tests.experiments import tiny

KEY = recipe_hash(tiny.recipe())


def test_sixteen_hexadecimal_digits() -> None:
    assert len(KEY) == 16 and int(KEY, 16) > 0


@pytest.mark.parametrize(
    "flags",
    [
        ("--num_workers", "3"),
        ("--save_minutes", "1"),
        ("--save_steps", "2"),
        ("--description", "other words"),
        ("--lr", "5e-2"),
    ],
)
def test_what_has_no_effect_has_no_part_in_it(flags: tuple[str, ...]) -> None:
    assert recipe_hash(tiny.recipe(*flags)) == KEY


@pytest.mark.parametrize(
    "flags",
    [
        ("--seed", "1"),
        ("--lr", "0.051"),
        ("--model.width", "5"),
        ("--threat.eps", "0.2"),
        ("--validation.steps", "2"),
        ("--guards.explosion", "11"),
        ("--optimizer", "muon"),
        ("--warmup_fraction", "0.2"),
        ("--weight_decay_norms", "false"),
        ("--minutes", "1"),
        ("--clock", "cpu"),
    ],
)
def test_what_has_an_effect_has_a_part_in_it(flags: tuple[str, ...]) -> None:
    assert recipe_hash(tiny.recipe(*flags)) != KEY


def test_a_default_counts_as_if_it_were_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    left_open = tiny.recipe(name="demo-robust")
    assert recipe_hash(left_open) == recipe_hash(
        tiny.recipe("--objective.loss", "ce", "--model.groups", "8", name="demo-robust")
    )
    defaults = {**(Adversarial.__init__.__kwdefaults__ or {}), "loss": "margin"}
    monkeypatch.setattr(Adversarial.__init__, "__kwdefaults__", defaults)
    assert recipe_hash(left_open) != recipe_hash(tiny.recipe("--objective.loss", "ce", name="demo-robust"))


def test_a_model_of_the_users_own_has_a_hash() -> None:
    own = replace(tiny.recipe(), model={"name": "mine:make", "width": 4})
    assert recipe_hash(own) not in (KEY, recipe_hash(replace(own, model={"name": "mine:make", "width": 5})))


def test_a_recipe_that_was_written_and_read_has_the_same_hash(tmp_path: Path) -> None:
    flags = ["--schedule", "step", "--milestones", "[1,2]", "--objective.beta", "9"]
    recipe = recipes.load("cifar10-trades-small", flags)
    recipes.write(recipe, tmp_path / "recipe.toml")
    assert recipe_hash(recipes.load(tmp_path / "recipe.toml"), "any") == recipe_hash(recipe, "any")


def test_the_network_to_start_from_counts_by_its_hash_and_not_by_its_place() -> None:
    here, there = (tiny.recipe("--start_from", place) for place in ("here/abc", "there/abc"))
    assert recipe_hash(here, "abc") == recipe_hash(there, "abc") == recipe_hash(tiny.recipe(), "abc")
    assert recipe_hash(here, "abc") != recipe_hash(here, "abd")


def test_whole_floats_and_integers_are_the_same_number_but_true_is_not_one() -> None:
    assert digest({"beta": 9.0}) == digest({"beta": 9})
    assert digest(True) != digest(1)


def test_a_start_from_elsewhere_is_known_by_its_content(tmp_path: Path) -> None:
    first, other = tmp_path / "first.safetensors", tmp_path / "other.safetensors"
    recipe = tiny.recipe("--start_from", str(first))
    safetensors.torch.save_file({"a": torch.zeros(1)}, first)
    before = recipe_hash(recipe)
    assert before not in (KEY, recipe_hash(recipe, "abc"))
    first.rename(other)
    assert recipe_hash(tiny.recipe("--start_from", str(other))) == before
    safetensors.torch.save_file({"a": torch.ones(1)}, first)
    assert recipe_hash(recipe) != before
