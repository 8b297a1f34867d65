"""The benchmark of variants runs, and its variants compute what they say."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "step_variants.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmarks_step_variants", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_variants_have_the_gradients_of_the_form_they_compute(script: ModuleType) -> None:
    found = {}
    for variant in script.VARIANTS:
        objective, x, y = variant.subject(script.QUICK[0])
        with variant.within():
            objective(x, y, step=0).loss.backward()
        found[variant.name] = torch.cat([p.grad.flatten() for p in objective.parameters()])
    for name, gradient in found.items():
        if "J z by difference" not in name:
            same = found["gauss-newton" if "gauss-newton" in name else "difference"]
            assert (gradient - same).norm() <= 1e-4 * same.norm(), name
    forms = found["gauss-newton"], found["difference"]
    assert (forms[0] - forms[1]).norm() > 2e-4 * forms[1].norm(), "two forms are measured"


def test_quick_run_saves_what_it_printed(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.main(["--quick", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert (tmp_path / "step_variants.txt").read_text().split() == printed.split()
    record = json.loads((tmp_path / "step_variants.json").read_text())
    assert record["rows"][0]["ratio"] == 1
    assert {row["name"] for row in record["rows"][1:]} == {variant.name for variant in script.VARIANTS}
    assert record["environment"]["torch"] == torch.__version__
