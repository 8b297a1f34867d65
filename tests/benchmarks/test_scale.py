from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from tests.benchmarks.running import RESULTS, ROOT, benchmark

from soar import recipes
from soar.cost.training import count_training
from soar.runs import Run
from soar.training.prepare import prepare


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return benchmark("scale", monkeypatch)


def test_black_images_cost_what_real_ones_do(scale: ModuleType) -> None:
    flags = ["--model.width", "4"]
    imagined = scale.counted("demo-soar", flags, (1, 28, 28), 9_000)
    real = count_training(prepare(Run(Path("nowhere"), recipes.load("demo-soar", flags)), progress="quiet"))
    assert imagined.updates == real.updates
    assert imagined.validation == real.validation


def test_the_committed_table_is_of_the_rate_of_today_and_adds_up(scale: ModuleType) -> None:
    found = json.loads((RESULTS / "scale.json").read_text())
    assert found["tflops_assumed"] == scale.RATE
    for row in found["rows"]:
        if "GPU" in row["hardware"]:
            at_best = row["petaflop"] * 1000 / scale.RATE / row["processes"]
            assert row["seconds"] == pytest.approx(at_best)


@pytest.mark.parametrize("name", ["scale.txt", "plan.txt", "plan-demo-soar.txt"])
def test_the_page_shows_what_the_files_hold(name: str) -> None:
    page = (ROOT / "docs" / "guides" / "scale.md").read_text()
    lines = [line.strip() for line in (RESULTS / name).read_text().splitlines() if line.strip()]
    shown = [line.strip() for line in page.splitlines()]
    start = shown.index(lines[0])
    assert [line for line in shown[start : start + len(lines) + 1] if line][: len(lines)] == lines
