from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from soar.experiments.grid import Sweep, parse
from soar.experiments.showing.sweep_show import chart, table, verdict

from soar import recipes, runs
from soar.errors import UserError
from soar.experiments.cache import Cache
from soar.experiments.jobs import Ending
from soar.experiments.sweep import Point, points, save, selected, trials
from soar.experiments.worker import perform
from tests.experiments.made import write_file
from tests.experiments.tiny import FLAGS, recipe


def validated(cache: Cache, key: str, robust: float, clean: float = 0.9) -> None:
    """Leave what a training leaves of its best checkpoint."""
    folder = cache.network(key) / "checkpoints"
    state = {"best": {"step": 1, "clean": clean, "robust": robust}, "sha256": {}}
    write_file(folder / "step-00000001" / "state.json", json.dumps(state))
    write_file(folder / "best", "step-00000001\n")


@pytest.fixture
def sweep() -> Sweep:
    return Sweep(recipe="demo-robust", grid=parse(["objective.steps=1,2,3"]), seeds=2)


def point(steps: str, *robust: float, reason: str = "") -> Point:
    place = {"objective.steps": steps}
    return Point(place=place, runs=(), robust=robust, clean=robust, reason=reason)


def test_each_place_and_seed_is_one_training_of_its_own(sweep: Sweep, tmp_path: Path) -> None:
    made = trials(sweep, Cache(tmp_path), root=None, device="cpu")
    jobs = [job for _, of_place in made for job in of_place]
    assert len({job.key for job in jobs}) == 6
    assert [job.title for job in jobs[:2]] == ["objective.steps=1, seed 0", "objective.steps=1, seed 1"]
    assert all(job.seconds > 0 and job.kind == "train" for job in jobs)


def test_scores_are_those_of_the_best_checkpoints_and_failures_have_a_reason(
    sweep: Sweep, tmp_path: Path
) -> None:
    cache = Cache(tmp_path)
    made = trials(sweep, cache, root=None, device="cpu")
    for k, (_, jobs) in enumerate(made):
        for n, job in enumerate(jobs):
            if (k, n) != (2, 1):
                validated(cache, job.key, robust=(0.2, 0.4, 0.9)[k] + 0.1 * n)
    found = points(made, cache, {made[2][1][1].key: Ending("failed", "the loss exploded")})
    assert [one.robust for one in found] == [(0.2, pytest.approx(0.3)), (0.4, 0.5), (0.9,)]
    assert found[2].reason == "failed: the loss exploded"
    best = selected(found, 2)
    assert best is not None and best.place == {"objective.steps": "2"}, "one lucky seed of two does not win"


def test_the_earlier_wins_a_tie_and_nothing_wins_without_trainings() -> None:
    best = selected([point("1", 0.4, 0.6), point("2", 0.5, 0.5)], 2)
    assert best is not None and best.place["objective.steps"] == "1"
    assert selected([point("1")], 1) is None


def test_the_verdict_tells_what_is_as_good(sweep: Sweep) -> None:
    found = [point("1", 0.40, 0.44), point("2", 0.43, 0.45), point("3", 0.1, 0.1)]
    said = verdict(sweep, found)
    assert (
        "objective.steps=2 (44.0 ± 1.4%)" in said
        and "within one standard deviation of it: nothing else" in said
    )
    found[0] = point("1", 0.42, 0.45)
    assert "of it: objective.steps=1" in verdict(sweep, found)
    one = Sweep(recipe="demo-robust", grid=sweep.grid)
    assert "one seed does not tell" in verdict(one, [point("1", 0.4)])
    assert "nothing was selected" in verdict(sweep, [point("1", 0.4)])


def test_table_chart_and_file_tell_the_same(sweep: Sweep, tmp_path: Path) -> None:
    found = [point("1", 0.40, 0.44), point("2", 0.43, 0.45), point("3", reason="failed: [x]")]
    made = table(sweep, found)
    assert made.row_count == 3 and list(made.columns[-1].cells)[1] == "selected"
    save(sweep, found, tmp_path / "deep" / "sweep.json")
    stored = json.loads((tmp_path / "deep" / "sweep.json").read_text())
    assert stored["selected"] == {"objective.steps": "2"} and stored["points"][0]["robust"] == [0.4, 0.44]
    drawn = chart(sweep, found)
    assert "robust: 42.0% (one standard deviation 39.2% to 44.8%) at 1" in drawn and "interval" not in drawn
    assert "prefers-color-scheme" in drawn and "objective.steps" in drawn


def test_two_grids_make_a_line_for_each_value_of_the_shorter() -> None:
    two = Sweep(recipe="r", grid=parse(["objective.start=zero,pgd-1", "objective.beta=1,3,5"]))
    found = [Point(place=place, runs=(), robust=(0.5,), clean=(0.9,)) for place in two.places()]
    drawn = chart(two, found)
    assert "objective.start=zero" in drawn and "objective.start=pgd-1" in drawn and ">clean<" not in drawn


def test_a_start_is_told_by_its_weights_and_not_by_its_place(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")

    def key(weights: Path) -> str:
        made = Sweep(
            recipe="demo-robust", flags=("--start_from", str(weights)), grid=parse(["objective.steps=1"])
        )
        return trials(made, cache, root=None, device="cpu")[0][1][0].key

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


def test_a_training_from_weights_is_done_under_the_name_that_it_was_planned_under(tmp_path: Path) -> None:
    weights = tmp_path / "start.safetensors"
    begun = runs.plan(recipe(), tmp_path / "run")
    save_file(begun.model(10, (1, 28, 28)).state_dict(), weights)
    flags = (*FLAGS, "--start_from", str(weights))
    made = Sweep(recipe="demo-standard", flags=flags, grid=parse(["lr=0.1"]))
    cache = Cache(tmp_path / "cache")
    [(_, (job,))] = trials(made, cache, root=None, device="cpu")
    perform(job, lambda _: None)
    assert cache.is_trained(job.key, recipes.load(cache.network(job.key) / "recipe.toml"))


def test_a_cache_that_cannot_be_written_is_a_users_mistake(tmp_path: Path) -> None:
    save_file({"w": torch.zeros(2)}, tmp_path / "a.safetensors")
    (tmp_path / "file").write_text("")
    flags = ("--start_from", str(tmp_path / "a.safetensors"))
    made = Sweep(recipe="demo-robust", flags=flags, grid=parse(["objective.steps=1"]))
    with pytest.raises(UserError, match=r"safetensors: cannot be written \(Not a directory\)$"):
        trials(made, Cache(tmp_path / "file"), root=None, device="cpu")


def test_a_sweep_without_held_out_examples_is_refused(tmp_path: Path) -> None:
    blind = Sweep(recipe="demo-robust", flags=("--data.validation", "0"), grid=parse(["objective.steps=1"]))
    with pytest.raises(UserError, match=r"data\.validation: got 0"):
        trials(blind, Cache(tmp_path), root=None, device="cpu")
