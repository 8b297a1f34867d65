"""The confusion table of the verdict is made from run folders and networks that hide their gradients."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.cli.tiny import TINY
from torch import nn

from soar.cli.main import main
from soar.data import Split
from soar.evaluation.diagnose import CHECKS
from soar.evaluation.diagnosis import CheckResult, Diagnosis, Verdict
from soar.threat import Threat

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "masking.py"


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("benchmarks_masking", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_hidden_networks_predict_as_before_and_have_no_gradient(script: ModuleType) -> None:
    x = (torch.arange(2 * 64).reshape(2, 1, 8, 8) / 127).requires_grad_()
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    rounded = script.Hidden(network, script.rounded)
    (gradient,) = torch.autograd.grad(rounded(x).sum(), x)
    assert not gradient.any()
    assert not script.jpeg(x).requires_grad
    torch.testing.assert_close(script.Hidden(network, factor=1000.0)(x), 1000 * network(x))


def test_jpeg_keeps_the_shape_and_nearly_the_picture(script: ModuleType) -> None:
    for channels in (1, 3):
        x = torch.linspace(0, 1, 256).reshape(1, 1, 16, 16).expand(2, channels, 16, 16)
        stored = script.jpeg(x, quality=95)
        assert stored.shape == x.shape
        assert (stored - x).abs().mean() < 0.03


def test_a_linear_classifier_learns_what_is_linear(script: ModuleType) -> None:
    labels = torch.arange(40) % 2
    images = (labels[:, None, None, None] * 200).to(torch.uint8).expand(40, 1, 2, 2).contiguous()
    model = script.linear(Split(images, labels, torch.arange(40)), classes=2)
    assert torch.equal(model(images.float() / 255).argmax(dim=1), labels)


def test_the_table_compares_the_verdict_with_what_it_should_be(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "demo-robust", *TINY, "--max_steps", "60"]
    for name in ("baselines/standard", "masking/soar-zero-start"):
        assert main([*words, "--output", str(tmp_path / name)]) == 0
    capsys.readouterr()

    def diagnose(model: nn.Module, split: Split, threat: Threat, *, name: str) -> Diagnosis:
        assert len(split) == 6 and model(split.images.float() / 255).shape == (6, 10)
        finding: Verdict = "masked" if isinstance(model, script.Hidden) else "sound"
        evidence = [
            CheckResult(check=check, title=check, finding=finding, sentence=f"{name}.", rule="by its type")
            for check in CHECKS
        ]
        return Diagnosis(model=name, data="data", threat=threat, examples=6, checks=tuple(evidence))

    monkeypatch.setattr(script.soar, "diagnose", diagnose, raising=False)
    folders = ["--baselines", str(tmp_path / "baselines"), "--masking", str(tmp_path / "masking")]
    script.main([*folders, "--examples", "6", "--out", str(tmp_path / "out")])
    cases = json.loads((tmp_path / "out" / "masking.json").read_text())["cases"]
    names = [case["name"] for case in cases]
    assert names == [
        "standard",
        "SOAR, zero start",
        "standard, logits x 1000",
        "standard, rounded pixels",
        "standard, JPEG",
        "standard, noise",
        "linear",
    ]
    assert all(len(case["findings"]) == len(CHECKS) for case in cases)
    shown = capsys.readouterr().out
    assert [case["name"] for case in cases if case["verdict"] != case["expected"]] == [names[1], names[5]]
    assert "5 of 7 as they should be" in shown and shown.count(" ! ") == 2
    assert (tmp_path / "out" / "masking.txt").read_text() in shown
