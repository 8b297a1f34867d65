from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.benchmarks.running import benchmark


def test_the_benchmark_of_compiled_passes_saves_what_it_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = benchmark("compiled_passes", monkeypatch)
    # Whether compiled passes compute the same is tested elsewhere; a compiler takes a minute.
    monkeypatch.setattr(script, "compiled", lambda model, _: model)
    script.main(["--quick", "--out", str(tmp_path)])
    assert (tmp_path / "compiled_passes.txt").read_text() == capsys.readouterr().out
    (row,) = json.loads((tmp_path / "compiled_passes.json").read_text())["rows"]
    assert row["objective"] == "adversarial:steps=10" and 0.2 < row["ratio"] < 5
