"""The benchmark of bounds runs and saves what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.benchmarks.running import benchmark


def test_quick_run_saves_what_it_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = benchmark("bounds", monkeypatch)
    script.main(["--quick", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert (tmp_path / "bounds.txt").read_text() == printed
    rows = json.loads((tmp_path / "bounds.json").read_text())["rows"]
    assert len(rows) == 12 and all(row["seconds"] > 0 for row in rows)
    assert {row["method"] for row in rows} == {"IBP", "CROWN", "PGD-20"}


def test_committed_costs_are_within_what_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    script = benchmark("bounds", monkeypatch)
    rows = json.loads((script.RESULTS / "bounds.json").read_text())["rows"]
    batched = [row for row in rows if row["method"] == "CROWN" and row["batch_size"] > 1]
    assert len(batched) == 4 and all(row["seconds"] <= 0.5 for row in batched)
    assert (script.RESULTS / "bounds.txt").read_text() == script.text(
        [script.Row(**row) for row in rows]
    ) + "\n"
