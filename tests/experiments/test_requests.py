"""From experiments to jobs."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from soar.experiments.cache import Cache
from soar.experiments.experiment import Experiment, Measurement
from soar.experiments.loading import load, tables
from soar.experiments.requests import jobs, requests
from tests.experiments.made import row_of


def smoke(name: str, seeds: int = 1) -> Experiment:
    return load(name, scale="smoke", seeds=seeds)


def keys(experiment: Experiment, only: Collection[str] = ()) -> dict[str, dict[str, tuple[str, ...]]]:
    """The keys of every cell's results, by row and column, one per seed."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for one in requests(experiment, only):
        cells = found.setdefault(one.row, {})
        cells[one.column] = (*cells.get(one.column, ()), one.key)
    return found


@pytest.mark.parametrize("table", tables())
def test_jobs_are_plain_unique_and_follow_what_they_need(table: str, tmp_path: Path) -> None:
    found = jobs(smoke(table), Cache(tmp_path))
    seen: set[str] = set()
    for job in found:
        assert job.key not in seen
        assert set(job.needs) <= seen
        assert json.loads(json.dumps(job.payload)) == job.payload
        assert job.seconds > 0
        seen.add(job.key)
    possible = [row.name for row in smoke(table).rows if not row.missing]
    stored = keys(smoke(table), only=possible)
    measured = [key for row in stored.values() for cell in row.values() for key in cell]
    assert set(measured) <= {job.key for job in found if job.kind == "measure"}


def test_a_training_job_holds_all_that_decides_it(tmp_path: Path) -> None:
    table = smoke("adv_linf")
    found = jobs(table, Cache(tmp_path), only=["ResNet / SOAR"], root=tmp_path, device="cuda")
    standard, soar = [job for job in found if job.kind == "train"]
    ours = table.networks["soar"]
    assert ours.start is not None
    assert (soar.key, soar.needs) == (ours.key, (ours.start.key,))
    assert soar.payload == {
        "recipe": json.loads(json.dumps(ours.recipe.as_table())),
        "start": standard.key,
        "processes": 1,
        "cache": str(tmp_path),
        "root": str(tmp_path),
        "device": "cuda",
    }
    measuring = [job for job in found if job.kind == "measure"]
    assert {job.payload["network"] for job in measuring} == {soar.key}
    assert all(job.needs == (soar.key,) for job in measuring)


def test_points_of_a_source_are_found_once_for_all_rows(tmp_path: Path) -> None:
    everything = load("bbox", scale="paper")
    there = replace(everything, rows=tuple(replace(row, missing="") for row in everything.rows))
    found = jobs(there, Cache(tmp_path))
    kinds = [job.payload["measurement"]["kind"] for job in found if job.kind == "measure"]
    assert kinds.count("points") == 4
    assert kinds.count("transfer") == 4 * 10
    points = {
        job.key for job in found if job.kind == "measure" and job.payload["measurement"]["kind"] == "points"
    }
    for job in found:
        if job.kind == "measure" and job.payload["measurement"]["kind"] == "transfer":
            assert len(points & set(job.needs)) == 1


def test_seeds_are_other_networks_and_other_results() -> None:
    found = keys(smoke("relaxation", 3))
    cells = [cell for row in found.values() for cell in row.values()]
    assert all(len(cell) == len(set(cell)) == 3 for cell in cells)
    assert keys(smoke("theory", 3)).keys() == {row.name for row in smoke("theory").rows}
    assert all(len(row["value"]) == 1 for row in keys(smoke("theory", 3)).values())


def test_a_row_may_have_more_seeds_than_the_others() -> None:
    table = smoke("relaxation")
    first, *others = table.rows
    several = replace(table, rows=(replace(first, seeds=3), *others))
    counted = {row: {len(cell) for cell in cells.values()} for row, cells in keys(several).items()}
    assert counted == {first.name: {3}} | {row.name: {1} for row in others}
    all_have_more = keys(replace(several, seeds=4))
    assert {len(cell) for cells in all_have_more.values() for cell in cells.values()} == {4}


def test_rows_that_are_missing_are_left_out_unless_weights_are_given(tmp_path: Path) -> None:
    table = smoke("cure_llr", 3)
    assert jobs(table, Cache(tmp_path), only=["WideResNet / CURE"]) == []
    file = tmp_path / "mine.safetensors"
    file.write_bytes(b"weights")
    row = replace(row_of(table, "WideResNet / CURE"), weights=str(file), missing="")
    given = replace(table, rows=(row,))
    found = jobs(given, Cache(tmp_path))
    assert [job.kind for job in found] == ["measure", "measure"]
    assert all(job.payload["given"]["weights"] == str(file) and not job.needs for job in found)
    assert set(keys(given)["WideResNet / CURE"]) == {"Standard", "PGD20"}


def test_only_what_takes_times_wants_no_other_job_beside_it(tmp_path: Path) -> None:
    for table, alone in (("cost", True), ("theory", False), ("foar", False)):
        assert {job.alone for job in jobs(smoke(table), Cache(tmp_path))} == {alone}


def test_fab_in_a_smaller_ball_waits_for_the_larger_one_and_no_other_attack_does(tmp_path: Path) -> None:
    found = jobs(smoke("autoattack_linf"), Cache(tmp_path), only=["SOAR"])
    asked = {job.title.split(" of ")[0]: job for job in found if job.kind == "measure"}
    for small, large in (("4/255", "6/255"), ("6/255", "8/255")):
        assert asked[f"FAB-T@{small}"].payload["larger"] == asked[f"FAB-T@{large}"].key
        assert asked[f"FAB-T@{large}"].key in asked[f"FAB-T@{small}"].needs
    others = [job for name, job in asked.items() if not name.startswith("FAB-T@")] + [asked["FAB-T@8/255"]]
    assert all("larger" not in job.payload and len(job.needs) == 1 for job in others)


def test_keys_of_measurements_tell_everything_apart() -> None:
    base = Measurement(kind="accuracy", options={"attack": "pgd", "steps": 20}, examples=500)
    made = [
        base.key("a", (), 0),
        base.key("b", (), 0),
        base.key("a", ("s",), 0),
        replace(base, examples=200).key("a", (), 0),
        base.key("a", (), 1),
        replace(base, kind="transfer").key("a", (), 0),
        replace(base, options={"attack": "pgd", "steps": 21}).key("a", (), 0),
    ]
    assert len(set(made)) == len(made)
    assert all(len(key) == 16 for key in made)


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_different_cells_are_different_measurements(scale: str) -> None:
    for table in tables():
        wanted = load(table, scale=scale)
        cells = [key for row in keys(wanted).values() for cell in row.values() for key in cell]
        assert len(cells) == len(set(cells)) == len(wanted.rows) * len(wanted.columns)
