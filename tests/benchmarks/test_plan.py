from __future__ import annotations

import json
from types import ModuleType

import pytest
from tests.benchmarks.running import RESULTS, benchmark


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return benchmark("plan", monkeypatch)


def test_the_benchmark_runs_and_prints_ratios(plan: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    before = (RESULTS / "plan.json").read_bytes()
    plan.main(["--quick", "--only", "standard"])
    assert "ratio of CPU time" in capsys.readouterr().out
    assert (RESULTS / "plan.json").read_bytes() == before


def test_the_committed_result_is_of_the_cases_of_today_and_near_one(plan: ModuleType) -> None:
    rows = json.loads((RESULTS / "plan.json").read_text())["rows"]
    assert [row["case"] for row in rows] == [case.name for case in plan.CASES]
    for row in rows:
        if row["case"] != "MMA-5, fresh network":
            assert 0.8 < row["planned_cpu"] / row["real_cpu"] < 1.4, row["case"]
