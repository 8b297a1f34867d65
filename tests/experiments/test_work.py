from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from soar.experiments.table_result import TableResult

from soar.errors import UserError
from soar.experiments import conduct
from soar.experiments.cache import Cache
from soar.experiments.jobs import Event, Job
from soar.experiments.planning import experiments
from soar.experiments.planning.scales import SCALES, Scale
from tests.experiments.made import Pretender

SMOKE = SCALES["smoke"]


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
            found = {"value": value, "low": 30.0, "high": 50.0, "right": "0101", "seconds": 2.0}
            cache.save_result(job.key, {**found, "forward": 1.0, "backward": 1.0, "details": {}})

    return Pretender(work)


def reproduce(
    ids: list[str], scale: Scale, executor: Pretender, cache: Cache, **conditions: Any
) -> list[TableResult]:
    work = conduct.prepare(conduct.tables(ids), scale, cache, **conditions)
    work.run(executor, lambda _: None)
    return work.results()


def test_every_table_is_in_the_order_once() -> None:
    assert sorted(conduct.ORDER) == sorted(experiments.TABLES) and len(set(conduct.ORDER)) == 22
    assert conduct.tables(["all", "foar"]) == conduct.ORDER
    with pytest.raises(UserError, match=r"unknown table 'adv_lnf'.*did you mean 'adv_linf'"):
        conduct.tables(["adv_lnf"])


def test_every_cell_has_the_papers_number_and_ours(cache: Cache) -> None:
    (found,) = reproduce(["soar_complete"], SMOKE, faking(cache), cache, seeds=2)
    assert list(found.rows) == ["SOAR-zero init", "SOAR-rand init", "SOAR-PGD1 init"]
    cell = found.rows["SOAR-zero init"]["PGD20 black-box (R)"]
    assert (cell.paper, cell.values, cell.low, cell.high) == (2.86, (40.0, 41.0), 30.0, 50.0)
    assert cell.right is not None and cell.right.tolist() == [False, True, False, True]
    assert (found.seeds, found.examples, found.scale) == (2, 8, "smoke") and found.seconds >= 36
    assert "mean nothing" in found.caution


@pytest.mark.parametrize("table", conduct.ORDER)
def test_every_table_can_be_filled_at_smoke_scale(table: str, cache: Cache) -> None:
    (found,) = reproduce([table], SMOKE, faking(cache), cache)
    for row, cells in found.rows.items():
        for column, cell in cells.items():
            assert cell.values or cell.missing, f"{row} {column}"
            assert cell.values or "WideResNet" in row, f"{row} {column}: {cell.missing}"
    conduct.judged(found)


def test_tables_share_their_work_and_a_second_call_does_nothing(cache: Cache) -> None:
    executor = faking(cache)
    tables = ["adv_linf", "adv_linf_with_std"]
    first = reproduce(tables, SMOKE, executor, cache)
    assert len(executor.done) == len(set(executor.done))
    work = conduct.prepare(["adv_linf_with_std"], SMOKE, cache)
    assert work.plan.todo == (), "the table with deviations asks for nothing that the other does not"
    again = faking(cache)
    second = reproduce(tables, SMOKE, again, cache)
    assert again.done == [] and [one.rows for one in second] == [one.rows for one in first]


def test_what_fails_leaves_its_cells_empty_and_the_others_full(cache: Cache) -> None:
    work = conduct.prepare(["adv_linf"], SMOKE, cache)
    heard: list[Event] = []
    assert not work.run(faking(cache, broken="train TRADES"), heard.append)
    (found,) = work.results()
    lost = found.rows["ResNet / TRADES"]["PGD20"]
    assert lost.values == () and lost.missing.startswith("skipped: it needs") and lost.paper == 45.38
    assert found.rows["ResNet / MART"]["PGD20"].values == (40.0,)
    assert {event.kind for event in heard} == {"started", "ended"}
    single = conduct.prepare(["adv_linf"], SMOKE, cache, only=["ResNet / TRADES"])
    assert not single.run(faking(cache, broken="FGSM"), heard.append)
    assert single.results()[0].rows["ResNet / TRADES"]["FGSM"].missing == "failed: no room left"


def test_only_some_rows_are_worked_on_and_the_others_show_what_is_there(cache: Cache) -> None:
    executor = faking(cache)
    reproduce(["adv_linf"], SMOKE, executor, cache, only=["ResNet / ADV"])
    (found,) = reproduce(["adv_linf"], SMOKE, executor, cache, only=["SOAR"])
    full = [row for row, cells in found.rows.items() if all(cell.values for cell in cells.values())]
    assert full == ["ResNet / ADV", "ResNet / SOAR"]
    waiting = found.rows["ResNet / MART"]["FGSM"]
    assert waiting.missing == "not measured yet"
    assert waiting.command == "soar reproduce adv_linf --scale smoke"


def test_a_mean_of_fewer_seeds_than_asked_for_is_not_shown(cache: Cache) -> None:
    reproduce(["cure_llr"], SMOKE, faking(cache), cache)
    work = conduct.prepare(["cure_llr"], SMOKE, cache, seeds=3)
    cell = work.results()[0].rows["ResNet-10 / SOAR"]["PGD20"]
    assert cell.values == () and cell.command == "soar reproduce cure_llr --scale smoke --seeds 3"
    assert {job.payload["seed"] for job in work.plan.todo if job.kind == "measure"} == {1, 2}


def test_a_damaged_result_is_measured_again(cache: Cache) -> None:
    executor = faking(cache)
    reproduce(["theory"], SMOKE, executor, cache)
    victim = cache.result(executor.done[0])
    victim.write_text(victim.read_text().replace("40", "90"))
    again = faking(cache)
    with pytest.warns(UserWarning, match="changed since it was written"):
        (found,) = reproduce(["theory"], SMOKE, again, cache)
    assert again.done == executor.done[:1]
    assert all(cell.values == (40.0,) for cells in found.rows.values() for cell in cells.values())


def test_weights_of_the_users_own_take_the_place_of_training(cache: Cache, tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    safetensors.torch.save_file({"w": torch.zeros(2)}, file)
    work = conduct.prepare(
        ["adv_linf"], SMOKE, cache, only=["WideResNet / MMA"], weights={"WideResNet / MMA": file}
    )
    assert {job.kind for job in work.plan.todo} == {"measure"} and work.obstacles() == []
    assert work.run(faking(cache), lambda _: None)
    assert work.results()[0].rows["WideResNet / MMA"]["PGD20"].values == (40.0,)
    with pytest.raises(UserError, match=r"expected a \.safetensors file that exists"):
        conduct.prepare(["adv_linf"], SMOKE, cache, weights={"WideResNet / MMA": tmp_path / "none"})


def test_what_cannot_be_measured_is_told_before_the_work(cache: Cache, tmp_path: Path) -> None:
    work = conduct.prepare(["adv_linf", "svhn_blackbox"], SCALES["small"], cache, root=tmp_path)
    wide, narrow, svhn = work.obstacles()
    assert wide.startswith("adv_linf: WideResNet / Standard,") and "not trained at this scale" in wide
    assert narrow.endswith("(no cifar10 data; soar data fetch cifar10)")
    assert svhn == "svhn_blackbox: all rows (no svhn data; soar data fetch svhn)"
    only = conduct.prepare(["adv_linf"], SCALES["small"], cache, only=["ResNet / ADV"], root=tmp_path)
    assert only.obstacles() == ["adv_linf: ResNet / ADV (no cifar10 data; soar data fetch cifar10)"]


def test_numbers_of_earlier_calls_are_shown_when_their_data_are_gone(cache: Cache, tmp_path: Path) -> None:
    table = experiments.experiment("svhn_l2", SCALES["small"], tmp_path)
    first, other = list(experiments.keys(table, SCALES["small"]).values())[:2]
    for (key,) in first.values():
        cache.save_result(key, {"value": 41.0, "seconds": 2.0})
    (key,) = next(iter(other.values()))
    cache.save_result(key, {"value": 42.0, "seconds": 2.0})
    work = conduct.prepare(["svhn_l2"], SCALES["small"], cache, root=tmp_path)
    assert work.plan.todo == ()
    whole, partly = list(work.results()[0].rows.values())[:2]
    assert {cell.values for cell in whole.values()} == {(41.0,)}
    assert [cell.missing for cell in partly.values()] == ["", *["no svhn data"] * (len(partly) - 1)]


def test_unknown_rows_get_the_nearest(cache: Cache) -> None:
    with pytest.raises(UserError, match=r"unknown row 'ResNet / SAOR' \(flag --only\); did you mean"):
        conduct.prepare(["adv_linf"], SMOKE, cache, only=["ResNet / SAOR"])
    with pytest.raises(UserError, match="flag --weights"):
        conduct.prepare(["adv_linf"], SMOKE, cache, weights={"nothing": Path("x")})
