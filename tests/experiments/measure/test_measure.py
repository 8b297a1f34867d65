"""Every kind of measurement on tiny networks that were really trained, through the worker."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from soar.attacks.transfer import transfer_points
from soar.errors import UserError
from soar.evaluation import Assessment
from soar.experiments.cache import Cache
from soar.experiments.experiment import Experiment
from soar.experiments.gather import gather
from soar.experiments.jobs import Job
from soar.experiments.loading import load
from soar.experiments.measure import KINDS, measure
from soar.experiments.requests import jobs
from soar.experiments.worker import perform
from tests.experiments.made import row_of

TABLES = {
    "adv_linf_with_std": "ResNet / SOAR",
    "bbox": "ResNet / SOAR",
    "autoattack_linf": "SOAR",
    "confidence": "SOAR-PGD1 init",
    "relaxation": "End of SOAR",
    "number-of-samples": "Beginning of SOAR",
    "adv_l2": "ResNet / SOAR",
}


def smoke(name: str) -> Experiment:
    return load(name, scale="smoke")


def silent(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    """All jobs of a few rows, the networks trained."""
    cache = Cache(tmp_path_factory.mktemp("cache"))
    found: dict[str, Job] = {}
    for table, row in TABLES.items():
        for job in jobs(smoke(table), cache, only=[row]):
            found.setdefault(job.key, job)
    for job in found.values():
        if job.kind == "train":
            perform(job, silent)
    return found


def of_kind(wanted: dict[str, Job], kind: str) -> list[Job]:
    return [
        one for one in wanted.values() if one.kind == "measure" and one.payload["measurement"]["kind"] == kind
    ]


@pytest.mark.parametrize("kind", [one for one in KINDS if one not in ("cost", "theory", "assessment")])
def test_every_kind_gives_a_number_that_is_stored(kind: str, wanted: dict[str, Job]) -> None:
    for job in of_kind(wanted, kind):
        perform(job, silent)
        found = Cache(Path(job.payload["cache"])).load_result(job.key)
        assert found is not None
        assert found["low"] <= found["value"] <= found["high"]
        if kind in ("clean", "accuracy", "points", "transfer"):
            assert found["value"] == 100 * found["correct"].count("1") / 8
            assert len(found["correct"]) == 8
        else:
            assert found["correct"] is None
        assert not list(Path(job.payload["cache"]).glob(f"results/{job.key}.partial*")), "no journal is left"


def test_a_second_measurement_gives_the_same(wanted: dict[str, Job]) -> None:
    for kind in ("accuracy", "confidence", "samples", "relaxation"):
        job = of_kind(wanted, kind)[0]
        first, second = (measure(job.payload, silent) for _ in range(2))
        assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_points_are_found_once_and_again_where_they_are_damaged(
    wanted: dict[str, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = of_kind(wanted, "transfer")[0]
    source = next(one for one in of_kind(wanted, "points") if one.key in job.needs)
    first = measure(source.payload, silent)
    calls: list[int] = []
    original = transfer_points

    def counted(*arguments: Any, **options: Any) -> torch.Tensor:
        calls.append(1)
        return original(*arguments, **options)

    monkeypatch.setattr(import_module("soar.experiments.measure.transfer"), "transfer_points", counted)
    correct = measure(job.payload, silent)["correct"]
    assert not calls
    (file,) = (Path(job.payload["cache"]) / "points" / source.key).glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:100])
    assert measure(job.payload, silent)["correct"] == correct
    assert len(calls) == 1
    assert measure(source.payload, silent)["correct"] == first["correct"]


def test_weights_of_a_users_own_are_measured(wanted: dict[str, Job], tmp_path: Path) -> None:
    from soar.weights import find_weights

    cache = Cache(Path(next(iter(wanted.values())).payload["cache"]))
    trained = smoke("adv_linf").networks["soar"]
    file = find_weights(cache.network(trained.key), "test").file
    row = replace(row_of(smoke("adv_linf"), "ResNet / SOAR"), weights=str(file))
    (job,) = [
        one
        for one in jobs(replace(smoke("adv_linf"), rows=(row,)), Cache(tmp_path))
        if one.payload["measurement"]["kind"] == "clean"
    ]
    perform(job, silent)
    found = Cache(tmp_path).load_result(job.key)
    ours = next(one for one in of_kind(wanted, "clean") if one.payload["network"] == trained.key)
    assert found is not None
    assert found["correct"] == measure(ours.payload, silent)["correct"]


def test_rows_are_ranked_by_held_out_images(wanted: dict[str, Job]) -> None:
    cache = Cache(Path(next(iter(wanted.values())).payload["cache"]))
    found = gather(replace(smoke("relaxation"), selects=True), cache).validation
    assert set(found) == {"Beginning of SOAR", "End of SOAR"}
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert gather(smoke("mma"), cache).validation == {}


def test_an_assessment_has_a_part_for_every_attack_and_is_kept_with_the_run(wanted: dict[str, Job]) -> None:
    clean = of_kind(wanted, "clean")[0]
    options = {"attacks": ["fgsm", "pgd:steps=2"], "split": "test"}
    payload = {**clean.payload, "measurement": {"kind": "assessment", "options": options}}
    found = measure(payload, silent)
    assert list(found["parts"]) == ["clean", "FGSM", "PGD-2", "worst case"]
    assert found["parts"]["clean"]["correct"] == measure(clean.payload, silent)["correct"]
    assert found["value"] == found["parts"]["worst case"]["value"] <= found["parts"]["PGD-2"]["value"]
    run = Cache(Path(clean.payload["cache"])).network(clean.payload["network"])
    stored = Assessment.load(run / "assessment-test.json")
    assert 100 * stored.accuracy("worst case") == found["value"]
    assert measure(payload, silent)["parts"] == found["parts"]
    assert len(list(run.glob("assessment-*"))) == 1, "what is there is read"


def test_a_network_that_is_not_there_is_a_mistake_of_one_line(wanted: dict[str, Job], tmp_path: Path) -> None:
    job = of_kind(wanted, "clean")[0]
    with pytest.raises(UserError, match="not a run folder"):
        measure({**job.payload, "cache": str(tmp_path)}, silent)


def test_an_unknown_kind_is_a_mistake(wanted: dict[str, Job]) -> None:
    job = of_kind(wanted, "clean")[0]
    with pytest.raises(UserError, match=r"cleen.*clean"):
        measure({**job.payload, "measurement": {"kind": "cleen"}}, silent)
