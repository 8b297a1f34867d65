from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from soar.errors import UserError
from soar.experiments.cache import Cache
from soar.experiments.claims import judge
from soar.experiments.experiment import Experiment
from soar.experiments.jobs import Event, Job
from soar.experiments.loading import load, tables
from soar.experiments.requests import requests
from soar.experiments.result import Result
from soar.experiments.work import Work, prepare
from tests.experiments.made import Pretender


def again(one: Experiment) -> str:
    return f"soar reproduce {one.name}"


def prepared(names: list[str], cache: Cache, *, scale: str = "smoke", **conditions: Any) -> Work:
    root, seeds = conditions.get("root"), conditions.pop("seeds", 1)
    asked = [load(name, scale=scale, seeds=seeds, root=root) for name in names]
    return prepare(asked, cache, **conditions)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def faking(cache: Cache, *, broken: str = "") -> Pretender:
    """Make every number its seed plus 40, and let jobs with a word in their title fail."""

    def work(job: Job) -> None:
        if broken and broken in job.title:
            raise ValueError("no room left")
        if job.kind == "measure":
            value = 40.0 + job.payload["seed"]
            found = {"value": value, "low": 30.0, "high": 50.0, "correct": "0101", "seconds": 2.0}
            cache.save_result(job.key, found)

    return Pretender(work)


def reproduce(names: list[str], executor: Pretender, cache: Cache, **conditions: Any) -> list[Result]:
    work = prepared(names, cache, **conditions)
    work.run(executor, lambda _: None)
    return work.results(again)


def test_every_cell_has_the_papers_number_and_ours(cache: Cache) -> None:
    (found,) = reproduce(["soar_complete"], faking(cache), cache, seeds=2)
    assert list(found.rows) == ["SOAR-zero init", "SOAR-rand init", "SOAR-PGD1 init"]
    cell = found.rows["SOAR-zero init"]["PGD20 black-box (R)"]
    assert (cell.paper, cell.values, cell.low, cell.high) == (2.86, (40.0, 41.0), 30.0, 50.0)
    assert cell.flags is not None and cell.flags.tolist() == [False, True, False, True]
    assert (found.seeds, found.examples, found.scale) == (2, 8, "smoke") and found.seconds >= 36
    assert "mean nothing" in found.caution


@pytest.mark.parametrize("table", tables())
def test_every_table_can_be_filled_at_smoke_scale(table: str, cache: Cache) -> None:
    (found,) = reproduce([table], faking(cache), cache)
    for row, cells in found.rows.items():
        for column, cell in cells.items():
            assert cell.values or cell.missing, f"{row} {column}"
            assert cell.values or "WideResNet" in row, f"{row} {column}: {cell.missing}"
    judge(load(table, scale="smoke").claims, found)


def test_tables_share_their_work_and_a_second_call_does_nothing(cache: Cache) -> None:
    executor = faking(cache)
    names = ["adv_linf", "adv_linf_with_std"]
    first = reproduce(names, executor, cache)
    assert len(executor.done) == len(set(executor.done))
    work = prepared(["adv_linf_with_std"], cache)
    assert work.plan.todo == (), "the table with deviations asks for nothing that the other does not"
    other = faking(cache)
    second = reproduce(names, other, cache)
    assert other.done == [] and [one.rows for one in second] == [one.rows for one in first]


def test_what_fails_leaves_its_cells_empty_and_the_others_full(cache: Cache) -> None:
    work = prepared(["adv_linf"], cache)
    heard: list[Event] = []
    assert not work.run(faking(cache, broken="train TRADES"), heard.append)
    (found,) = work.results()
    lost = found.rows["ResNet / TRADES"]["PGD20"]
    assert lost.values == () and lost.missing.startswith("skipped: it needs") and lost.paper == 45.38
    assert found.rows["ResNet / MART"]["PGD20"].values == (40.0,)
    assert {event.kind for event in heard} == {"started", "ended"}
    single = prepared(["adv_linf"], cache, only=["ResNet / TRADES"])
    assert not single.run(faking(cache, broken="FGSM"), heard.append)
    assert single.results()[0].rows["ResNet / TRADES"]["FGSM"].missing == "failed: no room left"


def test_only_some_rows_are_worked_on_and_the_others_show_what_is_there(cache: Cache) -> None:
    executor = faking(cache)
    reproduce(["adv_linf"], executor, cache, only=["ResNet / ADV"])
    (found,) = reproduce(["adv_linf"], executor, cache, only=["SOAR"])
    full = [row for row, cells in found.rows.items() if all(cell.values for cell in cells.values())]
    assert full == ["ResNet / ADV", "ResNet / SOAR"]
    waiting = found.rows["ResNet / MART"]["FGSM"]
    assert waiting.missing == "not measured yet"
    assert waiting.command == "soar reproduce adv_linf"


def test_a_mean_of_fewer_seeds_than_asked_for_is_not_shown(cache: Cache) -> None:
    reproduce(["cure_llr"], faking(cache), cache)
    work = prepared(["cure_llr"], cache, seeds=3)
    cell = work.results(again)[0].rows["ResNet-10 / SOAR"]["PGD20"]
    assert cell.values == () and cell.command == "soar reproduce cure_llr"
    assert {job.payload["seed"] for job in work.plan.todo if job.kind == "measure"} == {1, 2}


def test_a_damaged_result_is_measured_again(cache: Cache) -> None:
    executor = faking(cache)
    reproduce(["theory"], executor, cache)
    victim = cache.result(executor.done[0])
    victim.write_text(victim.read_text().replace("40", "90"))
    other = faking(cache)
    with pytest.warns(UserWarning, match="changed since it was written"):
        (found,) = reproduce(["theory"], other, cache)
    assert other.done == executor.done[:1]
    assert all(cell.values == (40.0,) for cells in found.rows.values() for cell in cells.values())


def test_weights_of_the_users_own_take_the_place_of_training(cache: Cache, tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    safetensors.torch.save_file({"w": torch.zeros(2)}, file)
    work = prepared(["adv_linf"], cache, only=["WideResNet / MMA"], weights={"WideResNet / MMA": file})
    assert {job.kind for job in work.plan.todo} == {"measure"} and work.obstacles() == []
    assert work.run(faking(cache), lambda _: None)
    assert work.results()[0].rows["WideResNet / MMA"]["PGD20"].values == (40.0,)
    with pytest.raises(UserError, match=r"expected a \.safetensors file that exists"):
        prepared(["adv_linf"], cache, weights={"WideResNet / MMA": tmp_path / "none"})


def test_what_cannot_be_measured_is_told_before_the_work(cache: Cache, tmp_path: Path) -> None:
    work = prepared(["adv_linf", "svhn_blackbox"], cache, scale="small", root=tmp_path)
    wide, narrow, svhn = work.obstacles()
    assert wide.startswith("adv_linf: WideResNet / Standard,") and "not trained at this scale" in wide
    assert narrow.endswith("(no cifar10 data; soar data fetch cifar10)")
    assert svhn == "svhn_blackbox: all rows (no svhn data; soar data fetch svhn)"
    only = prepared(["adv_linf"], cache, scale="small", only=["ResNet / ADV"], root=tmp_path)
    assert only.obstacles() == ["adv_linf: ResNet / ADV (no cifar10 data; soar data fetch cifar10)"]


def test_numbers_of_earlier_calls_are_shown_when_their_data_are_gone(cache: Cache, tmp_path: Path) -> None:
    table = load("svhn_l2", scale="small", root=tmp_path)
    rows = [row.name for row in table.rows]
    for request in requests(table, only=rows[:1]):
        cache.save_result(request.key, {"value": 41.0, "seconds": 2.0})
    cache.save_result(next(requests(table, only=rows[1:2])).key, {"value": 42.0, "seconds": 2.0})
    work = prepared(["svhn_l2"], cache, scale="small", root=tmp_path)
    assert work.plan.todo == ()
    whole, partly = list(work.results()[0].rows.values())[:2]
    assert {cell.values for cell in whole.values()} == {(41.0,)}
    assert [cell.missing for cell in partly.values()] == ["", *["no svhn data"] * (len(partly) - 1)]


def test_unknown_rows_get_the_nearest(cache: Cache) -> None:
    with pytest.raises(UserError, match=r"unknown row 'ResNet / SAOR' \(flag --only\); did you mean"):
        prepared(["adv_linf"], cache, only=["ResNet / SAOR"])
    with pytest.raises(UserError, match="flag --weights"):
        prepared(["adv_linf"], cache, weights={"nothing": Path("x")})
