"""Experiments from TOML files: studies, what a file may say, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from soar import recipes
from soar.errors import UserError
from soar.experiments.experiment import Experiment, Measurement
from soar.experiments.loading import folder_name, load, studies
from soar.experiments.measure import KINDS
from tests.experiments.made import row_of

TABLE: dict[str, Any] = {
    "title": "two training runs",
    "recipe": "demo-soar",
    "fields": {"training": {"epochs": 2}, "seed": 3},
    "rows": [
        {"name": "standard", "recipe": "demo-standard", "about": "no defense"},
        {"name": "SOAR, h = 1", "start_from": "standard", "fields": {"objective": {"step": 1.0}}},
        {"name": "PGD", "fields": {"objective": {"name": "adversarial", "steps": 2}, "seed": 4}},
    ],
}
SHARED: dict[str, Any] = {
    "networks": {
        "plain": {"title": "Plain", "recipe": {"small": "demo-standard", "paper": "cifar10-standard"}},
        "full": {"like": "plain", "size": "paper"},
    },
    "scales": {
        "smoke": {
            "examples": 8,
            "caution": "tiny",
            "fields": {"training": {"max_steps": 3}},
            "limits": {"model": {"width": 4, "absent": 1}, "attack": {"steps": 2}},
        },
        "small": {"examples": 500, "fewer": {"square": 200}, "caution": "little"},
        "paper": {"examples": 10_000, "caution": "all"},
    },
}
SCALED: dict[str, Any] = {
    "title": "one network",
    "shared": "shared.toml",
    "options": {"norm": "linf", "eps": "8/255"},
    "columns": [
        {"name": "clean", "kind": "clean"},
        {"name": "PGD", "kind": "accuracy", "attack": "pgd", "steps": {"small": 20, "paper": 100}},
        {"name": "Square", "kind": "accuracy", "attack": "square", "queries": 10},
    ],
    "rows": [{"name": "Plain", "network": "plain", "paper": [90.0, 50, "-"], "paper_std": [0.1, 0.2, 0.3]}],
}


def made(folder: Path, table: dict[str, Any], **options: Any) -> Experiment:
    """Load a table from a file."""
    (folder / "shared.toml").write_text(tomli_w.dumps(SHARED))
    file = folder / "mine.toml"
    file.write_text(tomli_w.dumps(table))
    return load(str(file), **options)


@pytest.mark.parametrize("name", studies())
def test_every_shipped_study_trains_on_one_data_set_with_one_threat(name: str) -> None:
    study = load(name)
    made = [training.recipe for training in study.networks.values()]
    assert len({recipe.data.name for recipe in made}) == 1
    assert len({recipe.threat for recipe in made}) == 1
    assert study.title and not study.scale
    for row in study.rows:
        assert row.network == row.name
        assert row.columns[list(row.columns)[-1]].options["what"] in ("seconds", "cpu_seconds")
        assert all(one.kind in (*KINDS, "record") for one in row.columns.values())


def test_a_row_overrides_the_file_which_overrides_the_recipe(tmp_path: Path) -> None:
    found = made(tmp_path, TABLE)
    standard, soar, pgd = (found.networks[row.name] for row in found.rows)
    assert (standard.recipe.training.epochs, standard.recipe.seed) == (2, 3)
    assert (standard.title, standard.about, standard.start) == ("standard", "no defense", None)
    plain = recipes.load("demo-soar").objective
    assert soar.recipe.objective == {**plain, "step": 1.0} and "step" not in plain
    assert (soar.start, soar.recipe.training.start_from) == (standard, None)
    assert pgd.recipe.objective == {"name": "adversarial", "steps": 2} and pgd.recipe.seed == 4
    flagged = made(tmp_path, TABLE, flags=("--seed", "9", "--epochs", "1")).networks["PGD"].recipe
    assert (flagged.seed, flagged.training.epochs) == (9, 1)


def test_weights_of_another_run_are_kept_where_no_row_is_started_from(tmp_path: Path) -> None:
    rows = [{"name": "one"}, {"name": "other", "start_from": "one"}]
    found = made(tmp_path, {"title": "", "recipe": "cifar10-foar-small", "rows": rows})
    starts = [one.recipe.training.start_from for one in found.networks.values()]
    assert starts == ["runs/cifar10-standard-small", None]


def test_a_file_without_columns_assesses_and_shows_the_time(tmp_path: Path) -> None:
    found = made(tmp_path, TABLE)
    assert found.columns == ("clean", "PGD-20", "PGD-20 margin", "worst case", "trained in")
    options = {"attacks": ["pgd:steps=20", "pgd:steps=20,loss=margin"], "split": "test"}
    for row in found.rows:
        for name in found.columns[:4]:
            expected = Measurement(kind="assessment", options=options, examples=1000, part=name)
            assert row.columns[name] == expected
        record = Measurement(kind="record", options={"what": "seconds"}, examples=1000)
        assert row.columns["trained in"] == record
    assert made(tmp_path, TABLE, examples=7).rows[0].columns["clean"].examples == 7
    assert made(tmp_path, {**TABLE, "examples": 9}).rows[0].columns["clean"].examples == 9
    chosen = made(tmp_path, TABLE, split="validation").rows[0].columns["clean"].options["split"]
    assert chosen == "validation"


def test_the_row_of_a_source_leaves_its_column_out() -> None:
    found = load("starts")
    assert "transfer" not in row_of(found, "source").columns
    transfer = row_of(found, "standard").columns["transfer"]
    assert (transfer.options, transfer.sources) == ({"attack": "pgd", "steps": 20}, ("source",))


def test_a_scale_chooses_values_and_limits_them(tmp_path: Path) -> None:
    found = {scale: made(tmp_path, SCALED, scale=scale) for scale in ("smoke", "small", "paper")}
    assert [one.scale for one in found.values()] == ["smoke", "small", "paper"]
    assert made(tmp_path, SCALED).scale == "small"
    pgd = [one.rows[0].columns["PGD"] for one in found.values()]
    assert [one.options["steps"] for one in pgd] == [2, 20, 100]
    assert pgd[0].options == {"attack": "pgd", "steps": 2, "norm": "linf", "eps": "8/255"}
    assert [one.examples for one in pgd] == [8, 500, 10_000]
    assert [one.rows[0].columns["Square"].examples for one in found.values()] == [8, 200, 10_000]
    assert all(one.rows[0].columns["clean"].options == {} for one in found.values())
    smoke, small, paper = (one.networks["plain"].recipe for one in found.values())
    assert (smoke.training.max_steps, small.training.max_steps) == (3, None)
    assert smoke.model == {**small.model, "width": 4}, "only what a recipe has is limited"
    assert (small.data.name, paper.data.name) == ("fashion-mnist-sample", "cifar10")
    assert [one.caution for one in found.values()] == ["tiny", "little", "all"]
    assert made(tmp_path, {**SCALED, "caution": "Mind: {scale}"}).caution == "Mind: little"


def test_numbers_of_the_paper_are_in_the_order_of_the_columns(tmp_path: Path) -> None:
    (row,) = made(tmp_path, SCALED).rows
    assert row.paper == {"clean": 90.0, "PGD": 50.0, "Square": None}
    assert row.paper_std == {"clean": 0.1, "PGD": 0.2, "Square": 0.3}


def test_a_network_of_the_papers_size_is_trained_at_its_scale_only(tmp_path: Path) -> None:
    table = {**SCALED, "rows": [{"name": "The full one", "network": "full"}]}
    row = made(tmp_path, table, scale="smoke", root=tmp_path).rows[0]
    file = tmp_path / "mine.toml"
    assert row.missing == "not trained at this scale"
    assert row.command == f"soar reproduce {file} --scale paper --only 'The full one'"
    full = load(str(file), scale="smoke").networks["full"].recipe
    assert full == load(str(file), scale="paper").networks["full"].recipe
    assert load(str(file), scale="paper", root=tmp_path).rows[0].missing == "no cifar10 data"


@pytest.mark.parametrize(
    "change, message",
    [
        ({"row": []}, "unknown field 'row'.*'rows'"),
        ({"examples": 0}, "examples: got 0"),
        ({"rows": []}, "got no rows, expected at least one"),
        ({"rows": [{"name": "a"}, {"name": "A"}]}, "two rows called 'A'"),
        ({"rows": [{"name": "a", "start_from": "b"}, {"name": "b"}]}, "start_from of 'a'"),
        ({"rows": [{"name": "a"}, {"name": "b", "like": "c"}]}, "unknown network 'c'.*like of 'b'"),
        ({"rows": [{"name": "a", "network": "b"}]}, "unknown network 'b'.*network of 'a'"),
        ({"rows": [{"name": "a"}, {"name": "b", "network": "a", "seed": 1}]}, "network of 'b': got seed too"),
        ({"rows": [{"name": "a"}], "networks": {"a": {}}}, "two networks called 'a'"),
        ({"rows": [{"name": "a", "recepe": "x"}]}, "'recepe'.*'recipe'"),
        ({"rows": [{"name": "a", "paper": [1.0]}]}, "got 1 numbers of the paper for 'a', expected 5"),
        ({"rows": [{"recipe": "demo-soar"}]}, "mine.toml: rows.name is missing"),
        ({"rows": [{"name": ".."}]}, r"mine.toml: got a row called '\.\.', expected a name"),
        ({"rows": [{"name": "!"}]}, "got a row called '!', expected a name"),
        ({"rows": 3}, "mine.toml: rows: got 3, expected `array`"),
        ({"rows": [3]}, "mine.toml: rows: got 3, expected `object`"),
        ({"rows": [{"name": "a", "like": 3}]}, "rows.like: got 3"),
        (
            {"rows": [{"name": "one", "fields": {"training": {"epoch": 1}}}]},
            r"network 'one': training\.epoch",
        ),
        ({"recipe": "", "rows": [{"name": "a"}]}, "network of 'a': recipe is missing"),
        ({"recipe": "", "rows": [{"name": "a", "seed": 1}]}, "network 'a': recipe is missing"),
        ({"recipe": "demo-saor"}, "unknown recipe 'demo-saor'"),
        ({"networks": {"a": {"titel": "x"}}}, "unknown field 'titel'.*'title'"),
        ({"networks": {"a": 3}}, "networks: got {'a': 3}, expected `object`"),
        ({"networks": {"a": {"like": 3}}}, "mine.toml: network 'a': like: got 3"),
        ({"columns": [{"name": "x", "kind": "accurate"}]}, "unknown kind 'accurate'.*'accuracy'"),
        ({"columns": [{"name": "x"}]}, "unknown kind .*columns.kind"),
        ({"columns": [{"kind": "clean"}]}, "got a column without a name"),
        ({"columns": [{"name": "x", "kind": "clean"}] * 2}, "got two columns called 'x'"),
        ({"columns": [{"name": "x", "kind": "transfer"}]}, "source of 'x'"),
        ({"columns": [{"name": "x", "kind": "transfer", "source": "standrad"}]}, "did you mean 'standard'"),
        ({"columns": [{"kind": "assessment", "attack": ["pgd"]}]}, "unknown field 'attack'.*'attacks'"),
        ({"columns": [{"kind": "assessment", "attacks": ["pdg"]}]}, "'pdg'"),
        ({"columns": [{"kind": "assessment", "split": "train"}]}, "split: got 'train'.*test, validation"),
        ({"columns": 3}, "columns: got 3"),
        ({"claims": [{"text": "x", "checks": [{"row": "a"}]}]}, "unknown field 'row'.*'rows'"),
        ({"claims": [{"text": "x", "checks": [{"rows": "a", "over": 1.0}]}]}, "unknown row 'a'"),
        ({"claims": [{"text": "x"}]}, "claims.checks is missing"),
        ({"shared": "absent.toml"}, "absent.toml: cannot be read"),
        ({"shared": "\0"}, "cannot be read .embedded null byte"),
        ({"shared": 3}, "shared: got 3, expected the name of a file beside it"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_in_one_line(
    change: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message) as refused:
        made(tmp_path, {**TABLE, **change})
    assert "\n" not in str(refused.value)


def test_a_wrong_name_or_scale_is_met_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown experiment 'start'.*did you mean 'starts'"):
        load("start")
    with pytest.raises(UserError, match=r"unknown experiment 'adv_lnf'.*did you mean 'adv_linf'"):
        load("adv_lnf")
    with pytest.raises(UserError, match=r"unknown scale 'smal'.*--scale.*'small'"):
        load("adv_linf", scale="smal")
    with pytest.raises(UserError, match=r"unknown scale 'small'.*--scale.*none"):
        load("demo", scale="small")


def test_folders_are_named_like_rows() -> None:
    assert [folder_name(row) for row in ("SOAR, h = 0.5", "ResNet / SOAR", "..")] == [
        "soar-h-0.5",
        "resnet-soar",
        "..",
    ]


def test_a_number_of_thousands_of_digits_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'title = "x"\nshared = 0x{"f" * 5000}\n[[rows]]\nname = "a"\n')
    with pytest.raises(UserError, match="shared: got a number of thousands of digits"):
        load(str(path))


def test_an_empty_name_of_a_network_is_as_none(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('title = "x"\nrecipe = "demo-soar"\n[[rows]]\nname = "a"\nnetwork = ""\n')
    assert load(str(path)).rows[0].network == "a"


def test_the_frontier_trains_its_best_six_thrice() -> None:
    rows = [row for row in load("frontier").rows if row.name.startswith("10 min")]
    assert [row.seeds for row in rows] == [3] * 7 + [1] * 3, "and PGD-10, which they are compared with"
