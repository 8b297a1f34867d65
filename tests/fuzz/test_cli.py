"""Whatever is typed after `soar` or written into its files: an answer, or one line and the exit code 2."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from dataclasses import fields

import hypothesis
import pytest
import tomli_w
from hypothesis import strategies as st

from soar import recipes
from soar.cli.main import COMMANDS, TAKES_FIELDS, make_parser
from soar.experiments.schema import ExperimentFile, RowTable
from soar.recipes.overrides import all_fields
from tests.fuzz import words
from tests.fuzz.world import World

EXTERNAL = ["evaluate", "--data", "fashion-mnist-sample", "--eps", "0.1", "--model"]
BEGINNINGS = {
    "demo": [["demo"]],
    "train": [["train", "demo-robust"], ["train"], ["train", "--resume"], ["train", "demo-robust", "--plan"]],
    "evaluate": [
        ["evaluate", "run"],
        ["evaluate", "run", "--attacks"],
        EXTERNAL,
        [*EXTERNAL, "torch.nn:Flatten"],
    ],
    "diagnose": [["diagnose", "run"], ["diagnose"], ["diagnose", "run", "--source"]],
    "certify": [["certify", "run"], ["certify", "run", "--method"], ["certify", "run", "--eps", "0.001"]],
    "report": [["report", "run"], ["report"]],
    "export": [["export", "run", "--output", "new", "--format", "onnx"], ["export", "run", "--output"]],
    "study": [["study", "starts"], ["study"], ["study", "study.toml", "--only"]],
    "sweep": [["sweep", "demo-robust", "--grid", "lr=1,2"], ["sweep"], ["sweep", "demo-robust", "--grid"]],
    "reproduce": [["reproduce", "theory", "--scale", "smoke"], ["reproduce", "adv_linf", "--scale"]],
    "data": [
        ["data", "verify"],
        ["data", "fetch", "svhn"],
        ["data", "fetch", "svhn", "--from"],
        ["data", "list"],
    ],
    "list": [["list"]],
    "bench": [
        ["bench", "step"],
        ["bench", "step", "--networks"],
    ],
}
FIELDS = [
    *(f"--{field}" for field in all_fields()),
    *(
        "--epochs",
        "--lr",
        "--eps",
        "--model",
        "--objective",
        "--data",
        "--start-from",
        "--milestones",
        "--flip",
    ),
    *(
        "--model.width",
        "--model.norm",
        "--model.x",
        "--objective.steps",
        "--objective.step_size",
        "--objective.x",
    ),
]
SECTIONS = ["data", "model", "threat", "objective", "training", "validation", "guards"]
WHOLE = [one.name for one in fields(ExperimentFile)]
ROW = [one.name for one in fields(RowTable)]
STUDY = [*WHOLE, "fields.training", "fields.lr", "x", *(f"rows.{name}" for name in [*ROW, "x"])]


@pytest.fixture(scope="module")
def stubbed(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Calls that end where the expensive part begins."""
    return World(tmp_path_factory.mktemp("stubbed"), stubbed=True)


@functools.cache
def flags(words: tuple[str, ...]) -> list[str]:
    """Every flag that a call may have."""
    parser: argparse.ArgumentParser = make_parser()
    for word in words:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction) and word in action.choices:
                parser = action.choices[word]
                break
    found = [flag for flag in parser._option_string_actions if flag not in ("-h", "--help")]
    return [*found, *(FIELDS if words[0] in TAKES_FIELDS else [])]


def calls(command: str) -> st.SearchStrategy[list[str]]:
    """A call that begins well and goes on with one to three things that make no sense."""
    value = st.one_of(st.sampled_from(words.VALUES), st.sampled_from(words.VALUES), st.text(max_size=8))

    def more(beginning: list[str]) -> st.SearchStrategy[list[str]]:
        flag = st.sampled_from(flags(tuple(beginning)) or ["--x"])
        piece = st.one_of(
            value.map(lambda one: [one]),
            st.tuples(flag, value).map(list),
            st.tuples(flag, value).map(lambda pair: [f"{pair[0]}={pair[1]}"]),
        )
        pieces = st.lists(piece, min_size=1, max_size=3)
        return pieces.map(lambda found: [*beginning, *(word for words in found for word in words)])

    return st.sampled_from(BEGINNINGS[command]).flatmap(more)


def recipe_text(field: str, value: str) -> str:
    """A recipe that would be fine but for one field."""
    table = recipes.read(recipes.FOLDER / "demo-robust.toml")
    section, _, name = field.rpartition(".")
    place = table.setdefault(section, {}) if section else table
    place.pop(name, None)
    text = tomli_w.dumps({**table, **({section: {"zz": 1, **place}} if section else {})})
    line = f"{name} = {value}\n"
    return text.replace("zz = 1\n", line) if section else line + text


def study_text(field: str, value: str) -> str:
    """A study that would be fine but for one field."""
    whole, row = {"title": '"d"', "recipe": '"demo-robust"'}, {"name": '"one"'}
    owner, _, name = field.partition(".")
    if owner == "rows" and name:
        row[name] = value
    else:
        whole[field] = value
    lines = [f"{key} = {one}" for key, one in whole.items()]
    lines += ["[[rows]]", *(f"{key} = {one}" for key, one in row.items())] if field != "rows" else []
    return "\n".join(lines) + "\n"


Maker = Callable[[str, str], str]
FILES: list[tuple[str, Maker, str]] = [
    *(("train", recipe_text, field) for field in [*all_fields(), *SECTIONS, "x", "data.x", "model.width"]),
    *(("train", recipe_text, field) for field in ("objective.steps", "objective.step_size", "model.x")),
    *(("study", study_text, field) for field in STUDY),
]


def call_with_file(made: World, file: tuple[str, Maker, str], value: str, more: Sequence[str] = ()) -> None:
    """Train by a recipe, or conduct a study, that has a hostile value in one field."""
    command, make, field = file
    (made.here / "new.toml").write_text(make(field, value))
    made.call([command, "new.toml", "--output", "new-run", *more])


def hammer(made: World, examples: int) -> None:
    """Make so many calls of every command, and as many with recipes and studies that make no sense."""
    limits = hypothesis.settings(
        max_examples=examples, database=None, suppress_health_check=[*hypothesis.HealthCheck]
    )

    def with_words(words: list[str]) -> None:
        made.call(words)

    for command in COMMANDS:
        limits(hypothesis.given(calls(command))(with_words))()

    def with_file(file: tuple[str, Maker, str], value: str, more: list[str]) -> None:
        call_with_file(made, file, value, more)

    more = st.sampled_from([[], ["--epochs", "1"], ["--model.width", "4"], ["--objective", "standard"]])
    limits(hypothesis.given(st.sampled_from(FILES), st.sampled_from(words.TOML), more)(with_file))()


def test_a_thousand_hostile_calls_end_in_an_answer_or_in_one_line(stubbed: World) -> None:
    before = stubbed.calls
    hammer(stubbed, 85)
    made = stubbed.calls - before
    print(f"{made} calls")
    assert made >= 1000


@pytest.mark.slow
def test_ten_thousand_hostile_calls_end_in_an_answer_or_in_one_line(stubbed: World) -> None:
    hammer(stubbed, 800)
    for file in FILES:
        for value in words.TOML:
            call_with_file(stubbed, file, value)
    assert stubbed.calls >= 10_000
