from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_benchmark_runs_and_prints_ratios(tmp_path: Path) -> None:
    output = tmp_path / "trainer.json"
    command = [sys.executable, "benchmarks/trainer.py", "--quick", "--output", str(output)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "worst CPU ratio" in done.stdout
    [case] = json.loads(output.read_text())["cases"]
    timing = case["timing"]
    assert min(timing.values()) > 0
    assert timing["waiting"] < timing["bare_wall"]


def test_the_committed_result_is_of_the_cases_of_today() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "trainer.json").read_text())
    names = [(entry["case"]["objective"], entry["case"]["model"]) for entry in found["cases"]]
    assert names == [("standard", "cnn6"), ("standard", "resnet10"), ("adversarial", "resnet10")]
