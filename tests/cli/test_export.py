from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
import torch

from soar import runs
from soar.cli.main import main
from tests.cli.tiny import TINY


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "run"
    assert main(["train", "demo-robust", *TINY, "--output", str(path)]) == 0
    return path


def test_a_run_is_exported_and_answers_the_same(
    run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = runs.find(run)
    data = opened.data()
    images = data.test.images[:20] / 255
    wanted = opened.trained_model(data).eval()(images).detach()
    assert main(["export", str(run), "--format", "torchscript", "-o", "net.pt"]) == 0
    assert (
        "saved net.pt: same predictions for batches of 8, 1, 17; logits differ by" in capsys.readouterr().out
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.load(folder / "net.pt")
    assert torch.allclose(script(images), wanted, atol=1e-5)


@pytest.mark.parametrize("kind", ["onnx", "torch-export"])
def test_the_other_formats_are_written_too(kind: str, run: Path, folder: Path) -> None:
    if kind == "onnx":
        pytest.importorskip("onnxscript")
    assert main(["export", str(run), "--format", kind, "--output", "net"]) == 0
    assert (folder / "net").is_file()


def test_a_model_from_elsewhere_is_exported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    source = "from torch.nn import *\ndef build():\n    return Sequential(Flatten(), Linear(784, 10))\n"
    (folder / "exported_net.py").write_text(source)
    torch.save({"1.weight": torch.eye(10, 784), "1.bias": torch.zeros(10)}, folder / "w.pt")
    words = ["export", "--model", "exported_net:build", "--weights", "w.pt"]
    assert main([*words, "--format", "torchscript", "-o", "net.pt"]) == 2
    assert "--model needs --data too" in capsys.readouterr().err
    words += ["--data", "fashion-mnist-sample"]
    assert main([*words, "--format", "torchscript", "-o", "net.pt"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "onnx", "-o", "x"], "which model? Give a run folder"),
        (["RUN", "--format", "onnx", "-o", "taken"], "--output: taken exists already; choose another name"),
        (["RUN", "--weights", "w", "--format", "onnx", "-o", "x"], "--weights goes with --model"),
        (["RUN", "--data", "d", "--format", "onnx", "-o", "x"], "--data goes with --model"),
        (["RUN", "--model", "a:b", "--format", "onnx", "-o", "x"], "got both the run"),
        (["nowhere", "--format", "onnx", "-o", "x"], "nowhere: not a run folder"),
    ],
)
def test_mistakes_are_told_in_one_line(
    words: list[str], said: str, run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "taken").touch()
    assert main(["export", *(str(run) if word == "RUN" else word for word in words)]) == 2
    shown = capsys.readouterr().err
    assert said in shown and shown.count("\n") == 1
