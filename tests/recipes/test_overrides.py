from __future__ import annotations

from typing import Any

import pytest

from soar import recipes
from soar.errors import UserError
from soar.recipes.overrides import all_fields, apply, full_name, names_of, parse


@pytest.mark.parametrize("field", all_fields())
def test_every_field_can_be_overridden_by_its_full_name(field: str) -> None:
    assert full_name(field) == field
    assert list(parse([f"--{field}=1"])) == [field]


@pytest.mark.parametrize(
    "tokens, expected",
    [
        (["--epochs", "30"], {"training.epochs": 30}),
        (["--batch-size", "64"], {"training.batch_size": 64}),
        (["--eps", "8/255"], {"threat.eps": "8/255"}),
        (["--eps=0.1"], {"threat.eps": 0.1}),
        (["--objective", "standard"], {"objective.name": "standard"}),
        (["--objective.step_size", "2/255"], {"objective.step_size": "2/255"}),
        (["--flip", "--crop_padding", "4"], {"data.flip": True, "data.crop_padding": 4}),
        (["--flip", "false"], {"data.flip": False}),
        (["--milestones", "100,150"], {"training.milestones": [100, 150]}),
        (["--milestones", "[5]"], {"training.milestones": [5]}),
        (["--clip_grad_norm", "null"], {"training.clip_grad_norm": None}),
        (["--model.norm", "none"], {"model.norm": "none"}),
        (["--start_from", "runs/a b"], {"training.start_from": "runs/a b"}),
        (["--lr", "-1"], {"training.lr": -1}),
        (["--objective", "adversarial:steps=3"], {"objective.name": "adversarial", "objective.steps": 3}),
        (["--model=my.nets:build:width=4"], {"model.name": "my.nets:build", "model.width": 4}),
    ],
)
def test_flags_are_read(tokens: list[str], expected: dict[str, Any]) -> None:
    assert parse(tokens) == expected


@pytest.mark.parametrize(
    "tokens, message",
    [
        (["--epoch", "3"], "unknown flag '--epoch' .* did you mean '--epochs'"),
        (["--training.epoch", "3"], "did you mean '--training.epochs'"),
        (["--steps", "3"], "--steps is not clear; write --validation.steps, or --objective.steps"),
        (["--epochs"], "--epochs needs a value"),
        (["--epochs", "--lr", "3"], "--epochs needs a value"),
        (["epochs", "3"], "got 'epochs', expected a flag"),
        (["--objective", "mart beta=3"], "objective: got 'mart beta=3', expected 'mart:beta=3'"),
        (["--objective", "mart:beta"], "objective: got 'beta' in 'mart:beta', expected option=value"),
    ],
)
def test_mistaken_flags_are_named(tokens: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse(tokens)


def test_a_new_name_drops_the_options_of_the_old_one() -> None:
    recipe = recipes.load("demo-robust", ["--objective", "standard"])
    assert recipe.objective == {"name": "standard"}
    same = recipes.load("demo-robust", ["--objective.steps", "3", "--objective", "adversarial"])
    assert same.objective == {"name": "adversarial", "steps": 3}


def test_applying_leaves_the_table_alone() -> None:
    table = {"data": {"name": "a"}}
    assert apply(table, {"data.name": "b", "seed": 3}) == {"data": {"name": "b"}, "seed": 3}
    assert table == {"data": {"name": "a"}}


def test_fields_by_their_last_name_reach_the_right_section() -> None:
    for section in ("training", "threat", "data"):
        for name in names_of(section):
            if name not in ("name", "validation"):
                assert full_name(name) == f"{section}.{name}"


@pytest.mark.parametrize(
    "flag, value, expected",
    [
        ("epochs", "1979-05-27", "1979-05-27"),
        ("epochs", "1\nlr = 2", "1\nlr = 2"),
        ("epochs", "9" * 5000, "9" * 5000),
        ("objective.x", "[" * 5000, "[" * 5000),
        ("objective.x", "{a=" * 3000, "{a=" * 3000),
        ("objective", "0", "0"),
        ("data", "true", "true"),
        ("start_from", "2024", "2024"),
        ("start_from", '"2024"', "2024"),
        ("start_from", "null", None),
        ("eps", "0.5", 0.5),
    ],
)
def test_a_value_is_what_its_field_takes_or_text(flag: str, value: str, expected: object) -> None:
    assert list(parse([f"--{flag}", value]).values()) == [expected]


def test_a_section_that_is_no_table_takes_no_fields() -> None:
    with pytest.raises(UserError, match="training: got 3, expected a table"):
        apply({"training": 3}, {"training.epochs": 1})
