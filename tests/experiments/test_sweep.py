from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from soar import recipes, runs
from soar.errors import UserError
from soar.experiments.cache import Cache
from soar.experiments.result import Cell, Result
from soar.experiments.show.curves import sweep_chart
from soar.experiments.sweep import Sweep, check, parse, verdict
from soar.experiments.work import prepare
from soar.experiments.worker import perform
from tests.experiments.made import result
from tests.experiments.tiny import FLAGS, recipe


def swept(*robust: tuple[float, ...], seeds: int = 2) -> Result:
    """The table of a sweep over objective.steps; points with fewer runs than seeds are not compared."""
    names = [f"objective.steps={k}" for k in range(1, len(robust) + 1)]
    rows = {
        name: {"robust": Cell(values=one), "clean": Cell(values=one)}
        for name, one in zip(names, robust, strict=True)
    }
    means = {name: sum(one) / seeds for name, one in zip(names, robust, strict=True) if len(one) == seeds}
    ranked = dict(sorted(means.items(), key=lambda one: -one[1]))
    return result(name="demo-robust", rows=rows, validation=ranked, seeds=seeds)


def test_points_are_the_product_of_all_grids() -> None:
    sweep = Sweep(recipe="demo-robust", grid=parse(["objective.steps=1,2", "lr=0.1,0.2"]))
    assert list(sweep.places().values()) == [
        {"objective.steps": steps, "training.lr": lr} for steps in ("1", "2") for lr in ("0.1", "0.2")
    ]
    assert next(iter(sweep.places())) == "objective.steps=1, training.lr=0.1"


def test_networks_have_the_fields_the_flags_and_the_seeds() -> None:
    sweep = Sweep(
        recipe="demo-robust",
        flags=("--epochs", "3", "--seed", "5"),
        grid=parse(["objective.steps=2"]),
        seeds=3,
    )
    made = [sweep.experiment().network("objective.steps=2", seed).recipe for seed in range(3)]
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
        ("epochs=1,x", "training.epochs: got 'x', expected `int`"),
        ("objective=advresarial", "did you mean 'adversarial'"),
        ("model.widht=4", "did you mean 'width'"),
        ("eps=8", "threat.eps: got 8.0 for linf"),
    ],
)
def test_values_that_training_would_refuse_are_refused_before_it(grid: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Sweep(recipe="demo-robust", grid=parse([grid])).experiment()


def test_every_recipe_can_be_checked_without_its_model() -> None:
    for name in recipes.names():
        check(recipes.load(name))


def test_a_sweep_has_a_largest_number_of_trainings() -> None:
    values = ",".join(f"0.{number}1" for number in range(100))
    grid = parse([f"lr={values}", f"weight_decay={values}"])
    assert len(Sweep(recipe="demo-robust", grid=grid).places()) == 10_000
    with pytest.raises(UserError, match="got 20,000 training runs, expected at most 10,000 in a sweep"):
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


def test_each_point_and_seed_is_one_training_of_its_own(tmp_path: Path) -> None:
    sweep = Sweep(recipe="demo-robust", grid=parse(["objective.steps=1,2,3"]), seeds=2)
    jobs = prepare([sweep.experiment()], Cache(tmp_path), seeds=2).plan.todo
    assert len({job.key for job in jobs}) == 6
    assert {job.title for job in jobs[:2]} == {
        "train objective.steps=1, seed 0",
        "train objective.steps=1, seed 1",
    }
    assert all(job.seconds > 0 and job.kind == "train" for job in jobs)


def test_the_verdict_names_what_is_as_good() -> None:
    text = verdict(swept((40.0, 44.0), (43.0, 45.0), (10.0, 10.0)))
    assert "objective.steps=2 (44.0 ± 1.4%)" in text
    assert "within one standard deviation of it: nothing else" in text
    assert "of it: objective.steps=1" in verdict(swept((42.0, 45.0), (43.0, 45.0), (10.0, 10.0)))
    assert "one seed does not show" in verdict(swept((40.0,), seeds=1))
    assert "nothing was selected" in verdict(swept((40.0,)))


def test_a_chart_shows_means_with_their_spread() -> None:
    sweep = Sweep(recipe="demo-robust", grid=parse(["objective.steps=1,2,3"]), seeds=2)
    drawn = sweep_chart(swept((40.0, 44.0), (43.0, 45.0), ()), sweep.grid, sweep.places())
    assert "robust: 42.0% (one standard deviation 39.2% to 44.8%) at 1" in drawn and "interval" not in drawn
    assert "prefers-color-scheme" in drawn and "objective.steps" in drawn


def test_two_grids_make_a_curve_for_each_value_of_the_shorter() -> None:
    two = Sweep(recipe="r", grid=parse(["objective.init=zero,pgd-1", "objective.beta=1,3,5"]))
    cells = {"robust": Cell(values=(50.0,)), "clean": Cell(values=(90.0,))}
    drawn = sweep_chart(result(rows=dict.fromkeys(two.places(), cells)), two.grid, two.places())
    assert "objective.init=zero" in drawn and "objective.init=pgd-1" in drawn and ">clean<" not in drawn


def test_a_start_is_known_by_its_weights_and_not_by_its_path(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")

    def key(weights: Path) -> str:
        flags = ("--start_from", str(weights))
        sweep = Sweep(recipe="demo-robust", flags=flags, grid=parse(["objective.steps=1"]))
        (job,) = prepare([sweep.experiment()], cache).plan.todo
        return job.key

    first, copy, other = (tmp_path / f"{name}.safetensors" for name in "abc")
    save_file({"w": torch.zeros(2)}, first)
    save_file({"w": torch.zeros(2)}, copy)
    save_file({"w": torch.ones(2)}, other)
    assert key(first) == key(copy) != key(other)
    save_file({"w": torch.ones(2)}, first)
    assert key(first) == key(other), "other weights under the old name are other weights"
    (kept, _) = sorted(
        (cache.folder / "weights").iterdir(), key=lambda path: path.read_bytes() != other.read_bytes()
    )
    kept.write_bytes(b"damaged")
    key(other)
    assert kept.read_bytes() == other.read_bytes(), "a damaged copy is made again"


def test_a_training_from_weights_is_done_under_the_key_it_was_planned_under(tmp_path: Path) -> None:
    weights = tmp_path / "start.safetensors"
    begun = runs.plan(recipe(), tmp_path / "run")
    save_file(begun.model(10, (1, 28, 28)).state_dict(), weights)
    flags = (*FLAGS, "--start_from", str(weights))
    sweep = Sweep(recipe="demo-standard", flags=flags, grid=parse(["lr=0.1"]))
    cache = Cache(tmp_path / "cache")
    (job,) = prepare([sweep.experiment()], cache).plan.todo
    perform(job, lambda _: None)
    assert cache.is_trained(job.key, recipes.load(cache.network(job.key) / "recipe.toml"))
    assert prepare([sweep.experiment()], cache).plan.todo == ()


def test_a_cache_that_cannot_be_written_is_a_users_mistake(tmp_path: Path) -> None:
    save_file({"w": torch.zeros(2)}, tmp_path / "a.safetensors")
    (tmp_path / "file").write_text("")
    flags = ("--start_from", str(tmp_path / "a.safetensors"))
    sweep = Sweep(recipe="demo-robust", flags=flags, grid=parse(["objective.steps=1"]))
    with pytest.raises(UserError, match=r"safetensors: cannot be written \(Not a directory\)$"):
        prepare([sweep.experiment()], Cache(tmp_path / "file"))


def test_a_sweep_without_held_out_examples_is_refused() -> None:
    blind = Sweep(recipe="demo-robust", flags=("--data.validation", "0"), grid=parse(["objective.steps=1"]))
    with pytest.raises(UserError, match=r"data\.validation: got 0"):
        blind.experiment()
