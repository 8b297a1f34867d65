"""The loss that SOAR begins with depends on the size of images only by the floor of its penalty."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.benchmarks.running import ROOT, benchmark


def test_the_floor_is_all_that_grows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = benchmark("image_size", monkeypatch)
    made.main(["--quick", "--out", str(tmp_path)])
    small, large = (made.Row(**row) for row in json.loads((tmp_path / "image_size.json").read_text())["rows"])
    assert large.with_floor > small.with_floor + 0.05
    assert abs(large.without_floor - small.without_floor) < 0.02
    assert (tmp_path / "image_size.txt").read_text().startswith("SOAR on an untrained ResNet-10")


def test_the_documentation_quotes_what_was_measured() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "image_size.json").read_text())["rows"]
    told = " ".join((ROOT / "docs" / "guides" / "scale.md").read_text(encoding="utf-8").split())
    for row in rows:
        assert f"| {row['size']} | {row['with_floor']:.1f} | {row['without_floor']:.1f} |" in told
