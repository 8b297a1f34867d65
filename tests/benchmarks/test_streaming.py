from __future__ import annotations

import json
import subprocess
import sys

from tests.benchmarks.running import ROOT


def test_the_benchmark_runs_and_prints_ratios_and_memory() -> None:
    command = [sys.executable, "benchmarks/streaming.py", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    heads, row = done.stdout.splitlines()
    assert heads.split()[:3] == ["images", "size", "workers"] and "ratio" in heads
    count, size, *numbers = map(float, row.split())
    assert (count, size) == (300, 64) and min(numbers) >= 0


def test_the_committed_result_is_of_the_cases_of_today() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "streaming.json").read_text())
    shown = [(row["images"], row["size"], row["workers"]) for row in found["rows"]]
    assert shown == [(n, s, w) for n, s in ((5000, 64), (50000, 64), (2000, 224)) for w in (0, 2)]
