from __future__ import annotations

import torch

from soar.studies import Finding
from soar.studies.cost import step_costs

TINY = {"name": "cnn8", "width": 4, "hidden": 4}


def finding(arm: str, objective: dict[str, object], model: dict[str, object]) -> Finding:
    recipe = {"model": model, "objective": objective, "training": {"batch_size": 8}}
    return Finding(arm=arm, status="finished", recipe=recipe)


def test_arms_are_measured_against_pgd_10_on_the_network_they_share() -> None:
    threads = torch.get_num_threads()
    rows = [
        Finding(arm="not run"),
        finding("standard", {"name": "standard"}, TINY),
        finding("PGD-10", {"name": "adversarial", "steps": 10}, TINY),
        finding("SOAR", {"name": "soar", "start": "pgd-2", "step": 0.5}, TINY),
        finding("other", {"name": "standard"}, {**TINY, "width": 3}),
    ]
    found = {row.arm: row.step_cost for row in step_costs(rows, (1, 8, 8), repeats=1)}
    assert found["not run"] is None and found["other"] is None
    assert found["PGD-10"] == 1.0, "it is the reference itself"
    assert found["standard"] is not None and 0 < found["standard"] < 1
    assert found["SOAR"] is not None and found["SOAR"] > found["standard"]
    assert torch.get_num_threads() == threads


def test_a_study_without_runs_has_no_costs() -> None:
    rows = [Finding(arm="not run")]
    assert step_costs(rows, (1, 8, 8)) == rows
