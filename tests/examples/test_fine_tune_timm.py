"""The timm example: with a stand-in for timm everywhere, with timm itself where a registry can be reached."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.examples.running import ROOT, load, run, shares

SMALL = ["--images", "20", "--epochs", "1", "--examples", "12"]
CONFIGURATION = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.5, 0.25)}

# torchvision's own operators do not load beside another build of torch. timm needs none of them, only that
# their names are known when torchvision is imported.
OPERATORS = """
import torch
library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


class Backbone(nn.Module):
    """What the example uses of a timm network: logits, and the statistics of its pixels."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.pretrained_cfg = dict(CONFIGURATION)
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 4, stride=4), nn.GELU(), nn.Flatten(), nn.Linear(256, classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Put a stand-in in timm's place and give the list of what it was asked for."""
    calls: list[tuple[str, dict[str, Any]]] = []

    def create_model(name: str, **options: Any) -> nn.Module:
        calls.append((name, options))
        return Backbone(options["num_classes"])

    stand_in = types.ModuleType("timm")
    stand_in.create_model = create_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", stand_in)
    return calls


def check_printed(lines: list[str]) -> None:
    first, *rows = lines
    assert first == "72 images to train on, 8 held out: ankle boot, coat, pullover, shirt"
    assert [row.split(":")[0] for row in rows] == ["standard", "soar"]
    for row in rows:
        clean, worst, low, high = shares(row)
        assert worst <= clean and low <= worst <= high


def test_it_fine_tunes_with_both_objectives(
    asked: list[tuple[str, dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run("fine_tune_timm", [*SMALL, "--name", "some_net", "--weights", "w.safetensors"], monkeypatch)
    check_printed(capsys.readouterr().out.splitlines())
    options = {"pretrained": True, "num_classes": 4, "pretrained_cfg_overlay": {"file": "w.safetensors"}}
    assert asked == [("some_net", options)] * 2


def test_pixels_are_standardized_inside_of_the_model(
    asked: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load("fine_tune_timm", monkeypatch)["pretrained"]("some_net", 4, None)
    assert asked[0][1]["pretrained_cfg_overlay"] == {}, "timm downloads"
    x = torch.rand(2, 3, 32, 32)
    mean, std = (torch.tensor(CONFIGURATION[name]).view(3, 1, 1) for name in ("mean", "std"))
    torch.testing.assert_close(model(x), model[1]((x - mean) / std))


@pytest.mark.slow
@pytest.mark.network
def test_it_runs_with_timm_itself(tmp_path: Path) -> None:
    """Install timm in an environment of its own; its weights come from a file and not from a download."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    (site / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT / 'src'}\n")
    minor = int(torch.__version__.split(".")[1])
    pip = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "timm", f"torchvision==0.{minor + 15}.*"], check=True)
    subprocess.run([*pip, "huggingface_hub"], check=True)
    (site / "sitecustomize.py").write_text(OPERATORS)

    def call(program: str, *flags: str) -> list[str]:
        command = [python, str(ROOT / program), *flags]
        one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, cwd=tmp_path, env=one_thread, check=True, text=True, capture_output=True
        )
        return done.stdout.splitlines()

    network = ["test_convnext", "w.safetensors"]
    call("tests/examples/pretrain_timm.py", *network, "--epochs", "1", "--batches", "5")
    check_printed(call("examples/fine_tune_timm.py", "--name", network[0], "--weights", network[1], *SMALL))
